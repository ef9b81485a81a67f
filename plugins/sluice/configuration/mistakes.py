"""Mistakes in a file, with place, key, reason and remedy."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sluice.errors import Terminal


@dataclass(frozen=True)
class Mistake:
    """One mistake in one place."""

    file: Path
    line: int
    """1-based; 0 for the file as a whole."""
    key: str
    """The key as in the file, e.g. `slaves.dr1.conn_id`; empty without a key."""
    problem: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else str(self.file)
        return ": ".join(part for part in (where, self.key, f"{self.problem}; {self.remedy}") if part)


def in_order(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    """Distinct mistakes by file and line."""
    return tuple(sorted(dict.fromkeys(mistakes), key=lambda mistake: (str(mistake.file), mistake.line)))


class ConfigError(Terminal):
    """Files cannot be used because of their `mistakes`."""

    def __init__(self, mistakes: Iterable[Mistake]):
        self.mistakes = in_order(mistakes)
        count = len(self.mistakes)
        heading = "The configuration has a mistake:" if count == 1 else f"The configuration has {count} mistakes:"
        super().__init__("\n".join([heading, *(f"  {mistake}" for mistake in self.mistakes)]))


class Wrong(Exception):
    """A value is invalid. The reader of the key adds the place."""

    def __init__(self, problem: str, remedy: str):
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}; {remedy}")
