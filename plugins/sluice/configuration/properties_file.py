"""Reads a Java `.properties` file, such as the ReplicationAgent's `master.properties`."""

import re
from collections.abc import Iterator
from pathlib import Path

from sluice.configuration.flat import UNSAID, Entry, Master, tree
from sluice.configuration.mistakes import Mistake
from sluice.configuration.nodes import Node

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read(
    file: Path, text: str, mistakes: list[Mistake], *, prefix_elsewhere: bool = False, master: Master = UNSAID
) -> Node | None:
    """The replication of the file; None if it needs a prefix and has none, which is added to `mistakes`."""
    return tree(file, 0, entries(text), mistakes, prefix_elsewhere=prefix_elsewhere, master=master)


def entries(text: str) -> Iterator[Entry]:
    """Keys and values by the rules of `java.util.Properties`."""
    for number, line in _logical_lines(text):
        key, value = _split(line)
        yield Entry(number, _unescape(key), _unescape(value))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations, each with the number of its first natural line."""
    pending = ""
    start = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(" \t\f")
        if not pending:
            if not line or line[0] in "#!":
                continue
            start = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            # A blank marks a continuation that is still empty.
            pending = pending or " "
            continue
        yield start, (pending + line).lstrip()
        pending = ""
    if pending.strip():
        yield start, pending.lstrip()


def _split(line: str) -> tuple[str, str]:
    """Splits at the first `=`, `:` or blank without a backslash before it."""
    match = re.match(r"((?:\\.|[^\\=:\s])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)\Z", line, re.DOTALL)
    assert match
    return match.group(1), match.group(2)


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code, letter = match.groups()
        return chr(int(code, 16)) if code else _LETTERS.get(letter, letter)

    return _ESCAPE.sub(one, text)
