"""A line under `tables`: which tables it means, and how they are replicated."""

import fnmatch
import re
from dataclasses import dataclass, field
from pathlib import Path

from sluice.configuration.mistakes import Mistake
from sluice.model.names import InvalidName, TableName, split_qualified
from sluice.model.transformation import Transformation

ALL_ACTIONS = frozenset("IUD")

_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class TablePattern:
    """`schema.table`, or a wildcard in the table's part: `*`, `?` and `[…]` as in file names.

    Names are compared exactly as the database stores them. A part in double quotes is taken
    literally: `public."a*b"` is one table.
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

    def matches(self, table: TableName) -> bool:
        if table.schema != self.schema:
            return False
        return fnmatch.fnmatchcase(table.name, self.name) if self.wildcard else table.name == self.name

    @property
    def precision(self) -> tuple[bool, int, int, int]:
        """The greater, the more exact: a table before wildcards; among these, the one with more
        literal characters, then with more `?` and `[…]`, then with fewer `*`."""
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
    """Where slaves have a table; what is None is as on the master."""

    schema: str | None = None
    name: str | None = None
    file: Path = field(default=Path(), compare=False)
    line: int = field(default=0, compare=False)
    key: str = field(default="", compare=False)

    def of(self, table: TableName) -> TableName:
        """The name of a table of the master on the slave."""
        return TableName(self.schema or table.schema, self.name or table.name)

    def pattern(self, pattern: TablePattern) -> TablePattern:
        """What the tables that `pattern` means are called on the slave."""
        return TablePattern(self.schema or pattern.schema, self.name or pattern.name, pattern.wildcard)

    def mistake(self, problem: str, remedy: str) -> Mistake:
        """What is wrong with it, at its place."""
        return Mistake(self.file, self.line, self.key, problem, remedy)


ON_ERROR = ("stop", "isolate")
"""What can happen where changes of a table cannot be applied."""


@dataclass(frozen=True)
class TableRule:
    """One line under `tables`."""

    pattern: TablePattern
    actions: frozenset[str] = ALL_ACTIONS
    """Of I, U, D: what the trigger fires on. Empty: initial content only, no trigger."""
    sequence: int | None = None
    """Place in the order in which tables are registered; absent and negative ones come first."""
    trigger: str | None = None
    """Name of the trigger; absent: made from the prefix and a number."""
    debug: bool = False
    """Write what the trigger does to DEBUG_TABLE."""
    on_error: str | None = None
    """`stop` or `isolate`, instead of what the slave says."""
    replicate: bool = True
    """False takes the tables of this line out of a wildcard."""
    transformation: Transformation | None = None
    """What slaves get otherwise than the master has it; None where they get it as it is."""
    target: Target | None = None
    """Where slaves have the table; None: under the name that it has on the master."""
