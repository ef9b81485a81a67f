"""The person at the terminal: questions, answers, what is said."""

import getpass
import sys
from collections.abc import Callable, Sequence

from sluice.errors import Terminal


class Unanswered(Terminal):
    """Something must be known, and nobody is there to be asked."""

    def __init__(self, what: str, option: str):
        super().__init__(f"{what} is not given, and there is no terminal to ask at. Give it: {option}.")


class Console:
    """Says lines; asks where standard input is a terminal.

    `yes`: whatever is to be confirmed is confirmed. `sql`: standard output is SQL, all else is a comment in it.
    """

    def __init__(self, *, yes: bool = False, sql: bool = False, interactive: bool | None = None) -> None:
        self.yes, self.sql = yes, sql
        self.interactive = sys.stdin.isatty() if interactive is None else interactive

    def say(self, text: str = "") -> None:
        print("\n".join(f"-- {line}" for line in text.splitlines()) if self.sql else text, flush=True)

    def ask(self, question: str, option: str, default: str = "", fault: Callable[[str], str] = lambda _: "") -> str:
        """The answer; asked again while `fault` of it is not empty. Raises `Unanswered` where nobody can be asked."""
        if not self.interactive:
            raise Unanswered(question, option)
        while True:
            answer = input(f"{question}{f' [{default}]' if default else ''}: ").strip() or default
            wrong = fault(answer) if answer else "An answer is needed."
            if not wrong:
                return answer
            self.say(f"  {wrong}")

    def secret(self, question: str, option: str) -> str:
        """What is typed without being shown. Raises `Unanswered`."""
        if not self.interactive:
            raise Unanswered(question, option)
        return getpass.getpass(f"{question}: ")

    def confirm(self, question: str, option: str = "--yes, after the subcommand") -> bool:
        """Whether the person agrees. Raises `Unanswered`."""
        if self.yes:
            return True
        if not self.interactive:
            raise Unanswered(f"An answer to '{question}'", option)
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")

    def script(self, title: str, statements: Sequence[str]) -> None:
        """SQL, as it can be copied."""
        print("\n".join([f"-- {title}", *(f"{statement};" for statement in statements), ""]), flush=True)
