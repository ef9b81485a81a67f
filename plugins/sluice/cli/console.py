"""The terminal: output, questions to a person, and the signals that end a command."""

import getpass
import logging
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sluice.errors import Terminal
from sluice.log_texts import plain


def unanswered(what: str, option: str) -> Terminal:
    """A required answer is missing, and there is no terminal."""
    return Terminal(f"{what} is not given, and there is no terminal to ask at. Give it: {option}.", code="unanswered")


class Console:
    """Prints lines; asks if standard input is a terminal.

    `yes`: confirms everything. `sql`: standard output is SQL, all other lines become comments.
    """

    def __init__(self, *, yes: bool = False, sql: bool = False, interactive: bool | None = None) -> None:
        self.yes, self.sql = yes, sql
        self.interactive = sys.stdin.isatty() if interactive is None else interactive

    def say(self, text: str = "") -> None:
        print("\n".join(f"-- {line}" for line in plain(text).splitlines()) if self.sql else plain(text), flush=True)

    def ask(self, question: str, option: str, default: str = "", fault: Callable[[str], str] = lambda _: "") -> str:
        """Asks until `fault` finds no mistake in the answer. Raises `unanswered` without a terminal."""
        if not self.interactive:
            raise unanswered(question, option)
        while True:
            answer = input(f"{question}{f' [{default}]' if default else ''}: ").strip() or default
            wrong = fault(answer) if answer else "An answer is needed."
            if not wrong:
                return answer
            self.say(f"  {wrong}")

    def secret(self, question: str, option: str) -> str:
        """Asks without echo. Raises `unanswered`."""
        if not self.interactive:
            raise unanswered(question, option)
        return getpass.getpass(f"{question}: ")

    def confirm(self, question: str, option: str = "--yes") -> bool:
        """Whether the person agrees. Raises `unanswered`."""
        if self.yes:
            return True
        if not self.interactive:
            raise unanswered(f"An answer to '{question}'", option)
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")

    def script(self, title: str, statements: Sequence[tuple[str, str]]) -> None:
        """Prints SQL, ready to be copied. `statements`: each with its reason."""
        print("\n".join([*script(title, statements), ""]), flush=True)


def script(title: str, statements: Sequence[tuple[str, str]]) -> list[str]:
    """The lines of a script: each statement below its reason, where that is another one than of the one before."""
    lines, before = [f"-- {title}"], ""
    for statement, reason in statements:
        if reason and reason != before:
            lines += [f"-- {line}" for line in textwrap.wrap(f"{reason[0].upper()}{reason[1:]}:", 117)]
        before = reason
        lines.append(statement if statement.startswith("--") else f"{statement};")
    return lines


@contextmanager
def quiet() -> Iterator[None]:
    """Without the log of the library, which is for tasks: a command says in its own words what it does."""
    log = logging.getLogger("sluice")
    before = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)


def log_to_output() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)


def stop_by_signal() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
