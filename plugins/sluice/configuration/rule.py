"""A line under `tables`: the tables that it matches, and how they are replicated."""

import fnmatch
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sluice.configuration.mistakes import Mistake, Wrong
from sluice.configuration.nodes import Node
from sluice.configuration.section import Options, Section, option
from sluice.configuration.values import flag, one_of, scalar, whole
from sluice.model.names import LONGEST_TRIGGER, InvalidName, TableName, split_qualified
from sluice.model.transformation import Transformation

ALL_ACTIONS = frozenset("IUD")
ON_ERROR = ("stop", "isolate")
"""Policies for changes of a table that cannot be applied."""

_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class TablePattern:
    """`schema.table`, or a wildcard in the table's part: `*`, `?` and `[…]` as in file names.

    Names are compared exactly as the database stores them. A part in double quotes is literal: `public."a*b"` is one
    table.
    """

    schema: str
    name: str
    wildcard: bool = False

    @classmethod
    def parse(cls, text: str) -> "TablePattern":
        """Raises `InvalidName`."""
        parts = split_qualified(text)
        if len(parts) != 2 or not all(parts):
            raise InvalidName(
                text, "is no table: write schema.table or schema.*, with double quotes around a part with a dot"
            )
        schema, name = parts
        stripped = text.strip()
        if not stripped.startswith('"') and _WILD.search(schema):
            raise InvalidName(text, "has a wildcard in its schema: write one line for each schema")
        literal = stripped.endswith('."' + name.replace('"', '""') + '"')
        return cls(schema, name, wildcard=not literal and bool(_WILD.search(name)))

    @staticmethod
    def exactly(table: TableName) -> str:
        """The text of the pattern that is exactly this table: parts in double quotes are no wildcards."""
        return ".".join('"' + part.replace('"', '""') + '"' for part in (table.schema, table.name))

    def matches(self, table: TableName) -> bool:
        if table.schema != self.schema:
            return False
        return fnmatch.fnmatchcase(table.name, self.name) if self.wildcard else table.name == self.name

    @property
    def precision(self) -> tuple[bool, int, int, int]:
        """Greater for a more specific pattern: a table before wildcards; among these the one with more literal
        characters, then with more `?` and `[…]`, then with fewer `*`."""
        literals = re.sub(r"\[[^\]]*\]|[*?]", "", self.name)
        single = re.findall(r"\[[^\]]*\]|\?", self.name)
        return (not self.wildcard, len(literals), len("".join(single)), -self.name.count("*"))

    @property
    def table(self) -> TableName:
        """The table of a pattern without a wildcard."""
        return TableName(self.schema, self.name)

    def __str__(self) -> str:
        if not self.wildcard:
            return str(self.table)
        return f"{str(TableName(self.schema, 'x'))[:-2]}.{self.name}"


@dataclass(frozen=True)
class Target:
    """The name of a table on slaves; None: as on the master."""

    schema: str | None = None
    name: str | None = None
    file: Path = field(default=Path(), compare=False)
    line: int = field(default=0, compare=False)
    key: str = field(default="", compare=False)

    def of(self, table: TableName) -> TableName:
        """The slave's name of a master's table."""
        return TableName(self.schema or table.schema, self.name or table.name)

    def pattern(self, pattern: TablePattern) -> TablePattern:
        """The pattern of the slave's names of the tables that `pattern` matches."""
        return TablePattern(self.schema or pattern.schema, self.name or pattern.name, pattern.wildcard)

    def mistake(self, problem: str, remedy: str) -> Mistake:
        """A mistake at its place."""
        return Mistake(self.file, self.line, self.key, problem, remedy)


def _actions(node: Node, mistakes: list[Mistake]) -> frozenset[str]:
    right = 'write any of I, D and U, e.g. IDU, or "" to copy the content once and replicate no change'
    text = scalar(node, right)
    letters = text.strip().upper()
    if wrong := sorted(set(letters) - ALL_ACTIONS):
        raise Wrong(f"{text!r} has {', '.join(map(repr, wrong))}, which is no action", right)
    if len(set(letters)) < len(letters):
        raise Wrong(f"{text!r} has an action twice", right)
    return frozenset(letters)


def _trigger(node: Node, mistakes: list[Mistake]) -> str | None:
    trigger = scalar(node, "write the name of the trigger, or leave it out to have one made").strip()
    if len(trigger.encode()) > LONGEST_TRIGGER or any(ord(character) < 32 for character in trigger):
        raise Wrong(f"{trigger!r} cannot name a trigger", f"use {LONGEST_TRIGGER} bytes at most, none of control")
    return trigger or None


@dataclass(frozen=True)
class TableRule(Options):
    """One line under `tables`."""

    pattern: TablePattern
    actions: frozenset[str] = option(ALL_ACTIONS, _actions)
    """Captured actions, of I, U, D. Empty: initial content only, no trigger."""
    sequence: int | None = option(None, whole())
    """Place in the order in which tables are registered; missing and negative ones come first."""
    trigger: str | None = option(None, _trigger)
    """Name of the trigger; None: made from the prefix and a number."""
    debug: bool = option(False, flag)
    """Whether the trigger logs to DEBUG_TABLE."""
    on_error: str | None = option(None, one_of(ON_ERROR, "policies"))
    """`stop` or `isolate`, instead of the slave's policy."""
    replicate: bool = option(True, flag)
    """False excludes the tables of this line from a wildcard."""
    transformation: Transformation | None = None
    """The transformation for slaves, or None."""
    target: Target | None = None
    """The name on slaves; None: the master's."""

    def checked(self, section: Section) -> Self:
        if self.trigger is not None and self.pattern.wildcard:
            section.wrong(
                f"would give every table of {self.pattern} the same trigger",
                "leave it out, or name triggers on lines of single tables",
                "trigger",
            )
        others = ", ".join(name for name in section.names if name != "replicate")
        if not self.replicate and others:
            section.wrong(f"has {others} although replicate is false", "take out either replicate or the others")
        return self

    @property
    def filters(self) -> bool:
        """Whether slaves may get only some of the rows."""
        transformation = self.transformation
        return transformation is not None and (transformation.where is not None or transformation.exit is not None)
