"""The tree that every reader builds from its file."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sluice.configuration.mistakes import Mistake, Wrong

Value: TypeAlias = "str | dict[str, Node] | list[Node] | None"


@dataclass(frozen=True)
class Node:
    """A value with its place. A scalar is the text as written, which the reader of the key checks."""

    file: Path
    line: int
    key: str
    value: Value

    def child_key(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key else name

    @property
    def kind(self) -> str:
        """The kind of the value, for messages."""
        match self.value:
            case None:
                return "nothing"
            case dict():
                return "a mapping"
            case list():
                return "a list"
            case text:
                return repr(text)

    @property
    def fields(self) -> "dict[str, Node]":
        """The entries; empty if the value is no mapping."""
        return self.value if isinstance(self.value, dict) else {}

    def entries(self, right: str) -> "dict[str, Node]":
        """The entries of a mapping whose keys are names. Raises `Wrong`; `right`: what to write."""
        if not isinstance(self.value, dict):
            raise Wrong(f"is {self.kind}", right)
        return self.value

    def place_seen_from(self, other: "Node") -> str:
        """The place for a message about `other`, which names its file already."""
        return f"on line {self.line}" if self.file == other.file else f"in {self.file}:{self.line}"

    def mistake(self, problem: str, remedy: str) -> Mistake:
        return Mistake(self.file, self.line, self.key, problem, remedy)


def suggestion(wrong: str, known: Iterable[str], what: str = "keys") -> str:
    """`did you mean …? Known keys: …`"""
    names = sorted(known)
    lowered = {name.lower(): name for name in names}
    near = difflib.get_close_matches(wrong.lower(), lowered, n=1, cutoff=0.6)
    meant = f"did you mean {lowered[near[0]]}? " if near else ""
    return f"{meant}{'K' if meant else 'k'}nown {what}: {', '.join(names) if names else 'none'}"


def parts(text: str) -> tuple[str, ...]:
    """The parts between commas, without blanks."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
