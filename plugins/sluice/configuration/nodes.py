"""The tree that every reader makes of its file, and the careful reading of one mapping in it."""

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sluice.configuration.mistakes import Mistake

Value: TypeAlias = "str | dict[str, Node] | list[Node] | None"


@dataclass(frozen=True)
class Node:
    """A value with its place. Scalars are the text as written: what it must be, its reader decides."""

    file: Path
    line: int
    key: str
    value: Value

    def child_key(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key else name

    @property
    def kind(self) -> str:
        """For messages."""
        match self.value:
            case None:
                return "nothing"
            case dict():
                return "a mapping"
            case list():
                return "a list"
            case text:
                return repr(text)

    def place_seen_from(self, other: "Node") -> str:
        """For a message about `other`: its reader knows that file already."""
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


class Section:
    """A mapping that is being read. Every key is asked for once; `finish` reports what nobody asked for.

    A value that is absent or wrong reads as the default; what was wrong goes to `mistakes`.
    """

    def __init__(self, node: Node, mistakes: list[Mistake]):
        self.node = node
        self.mistakes = mistakes
        self._known: set[str] = set()
        self._fields: Mapping[str, Node] = {}
        self._malformed = not isinstance(node.value, dict) and node.value is not None
        if isinstance(node.value, dict):
            self._fields = node.value
        elif self._malformed:
            mistakes.append(node.mistake(f"is {node.kind}", "write a mapping of keys to values"))

    def get(self, name: str) -> Node | None:
        self._known.add(name)
        return self._fields.get(name)

    def has(self, name: str) -> bool:
        return name in self._fields

    def section(self, name: str) -> "Section | None":
        node = self.get(name)
        return Section(node, self.mistakes) if node is not None else None

    def inside(self, *names: str) -> Node | None:
        """A node within sections, whether or not the sections are right."""
        node: Node | None = self.node
        for name in names:
            node = node.value.get(name) if node is not None and isinstance(node.value, dict) else None
        return node

    def missing(self, name: str, remedy: str) -> None:
        if self._malformed:
            return
        key = self.node.child_key(name)
        self.mistakes.append(Mistake(self.node.file, self.node.line, key, "is missing", remedy))

    def scalar(self, name: str, right: str) -> tuple[Node, str] | None:
        """The node and its text; None when absent or no scalar. `right` says what it should be."""
        node = self.get(name)
        if node is None:
            return None
        if isinstance(node.value, str):
            return node, node.value
        self.mistakes.append(node.mistake(f"is {node.kind}" if node.value is not None else "has no value", right))
        return None

    def text(self, name: str, default: str, right: str) -> str:
        """A text that is not empty."""
        found = self.scalar(name, right)
        if found is None:
            return default
        node, text = found
        if not text.strip() or any(ord(character) < 32 for character in text):
            self.mistakes.append(node.mistake("is empty" if not text.strip() else "holds control characters", right))
            return default
        return text.strip()

    def choice(self, name: str, choices: Iterable[str], default: str, what: str) -> str:
        allowed = sorted(choices)
        found = self.scalar(name, f"write one of {', '.join(allowed)}")
        if found is None:
            return default
        node, text = found
        if text in allowed:
            return text
        self.mistakes.append(node.mistake(f"{text!r} is not known", suggestion(text, allowed, what)))
        return default

    def flag(self, name: str, default: bool) -> bool:
        right = "write true or false"
        found = self.scalar(name, right)
        if found is None:
            return default
        node, text = found
        match text.strip().lower():
            case "true" | "yes" | "on" | "1":
                return True
            case "false" | "no" | "off" | "0":
                return False
        self.mistakes.append(node.mistake(f"{text!r} is neither true nor false", right))
        return default

    def integer(self, name: str, default: int | None, low: int | None = None, high: int | None = None) -> int | None:
        right = "write a whole number" + _range(low, high)
        found = self.scalar(name, right)
        if found is None:
            return default
        node, text = found
        # Not YAML's own reading of numbers: there 010 is eight and 1:30 is ninety. Eighteen digits fit every database.
        if not re.fullmatch(r"[+-]?[0-9][0-9_]{0,17}", text.strip()):
            self.mistakes.append(node.mistake(f"{text!r} is not a whole number", right))
            return default
        number = int(text.strip().replace("_", ""))
        if (low is not None and number < low) or (high is not None and number > high):
            self.mistakes.append(node.mistake(f"{text} is out of range", right))
            return default
        return number

    def seconds(self, name: str, default: float, low: float, high: float) -> float:
        number = self.number(name, default, low, high, "seconds")
        assert number is not None
        return number

    def number(self, name: str, default: float | None, low: float, high: float, what: str = "a number") -> float | None:
        """Of any kind; `what` says in messages what it counts."""
        right = f"write {what} from {low:g} to {high:g}"
        found = self.scalar(name, right)
        if found is None:
            return default
        node, text = found
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            self.mistakes.append(node.mistake(f"{text!r} is not a number", right))
            return default
        if not low <= number <= high:
            self.mistakes.append(node.mistake(f"{text} is out of range", right))
            return default
        return number

    def finish(self) -> None:
        for name, node in self._fields.items():
            if name not in self._known:
                self.mistakes.append(node.mistake("is not known", suggestion(name, self._known)))


def _range(low: int | None, high: int | None) -> str:
    if low is not None and high is not None:
        return f" from {low} to {high}"
    return " of 18 digits at most"


def parts(text: str) -> tuple[str, ...]:
    """What stands between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
