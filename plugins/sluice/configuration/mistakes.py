"""What is wrong in a file: where, which key, why, and what would be right."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sluice.errors import Terminal


@dataclass(frozen=True)
class Mistake:
    """One thing a person must correct in one place."""

    file: Path
    line: int
    """1-based; 0 when the file as a whole is meant."""
    key: str
    """The key as the file writes it, e.g. `slaves.dr1.conn_id`; empty when no key is at fault."""
    problem: str
    remedy: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else str(self.file)
        return ": ".join(part for part in (place, self.key, f"{self.problem}; {self.remedy}") if part)


def in_order(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    """As a reader of the files comes upon them, each once."""
    return tuple(sorted(dict.fromkeys(mistakes), key=lambda mistake: (str(mistake.file), mistake.line)))


class ConfigError(Terminal):
    """One or more files cannot be used; `mistakes` lists all that is wrong in them."""

    def __init__(self, mistakes: Iterable[Mistake]):
        self.mistakes = in_order(mistakes)
        count = len(self.mistakes)
        heading = "The configuration has a mistake:" if count == 1 else f"The configuration has {count} mistakes:"
        super().__init__("\n".join([heading, *(f"  {mistake}" for mistake in self.mistakes)]))


class Wrong(Exception):
    """A value cannot be used. The reader of the key adds the place."""

    def __init__(self, problem: str, remedy: str):
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}; {remedy}")
