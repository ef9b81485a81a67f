"""A console for tests of commands with questions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.cli.console import Console, script, unanswered


@dataclass
class Told(Console):
    """A console without a terminal, with prepared answers."""

    answers: dict[str, str] = field(default_factory=dict)
    yes: bool = False
    said: list[str] = field(default_factory=list)
    agrees: bool = True
    statements: list[str] = field(default_factory=list)

    @property
    def interactive(self) -> bool:  # type: ignore[override]
        return bool(self.answers)

    def say(self, text: str = "") -> None:
        self.said.append(text)

    def ask(self, question: str, option: str, default: str = "", fault: Any = None) -> str:
        found = next((answer for part, answer in self.answers.items() if part in question), None)
        if found is None:
            raise unanswered(question, option)
        return found or default

    def secret(self, question: str, option: str) -> str:
        return self.ask(question, option)

    def confirm(self, question: str, option: str = "--yes") -> bool:
        return self.agrees

    def script(self, title: str, statements: Sequence[tuple[str, str]]) -> None:
        self.statements += [statement for statement, _ in statements]
        self.say("\n".join(script(title, statements)))

    @property
    def text(self) -> str:
        return "\n".join(self.said)
