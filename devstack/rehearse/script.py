"""Divides a script into the statements and commands that psql would run, one after the other. No I/O."""

import codecs
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from sluice.errors import Terminal

_PARTS = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--[^\r\n]*)
    | (?P<block>/\*)
    | (?P<escaped>[eE]'(?:[^'\\]++|''|\\.)*(?:'|\Z))
    | (?P<text>'[^']*(?:'|\Z))
    | (?P<name>"[^"]*(?:"|\Z))
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<joined>\\[;:])
    | (?P<command>\\[^\n]*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SENDS = re.compile(r"\\(g|gx|gset|gexec|gdesc|crosstabview|watch|bind_named|sendpipeline)\b")
"""Commands that send what stands before them, as a semicolon does."""
_FROM_SCRIPT = re.compile(r"\A\s*\\?copy\b.*?\bfrom\s+stdin\b[^\n]*", re.IGNORECASE | re.DOTALL)
"""Reads the lines that follow it."""
_END_OF_DATA = re.compile(r"^\\\.\r?$", re.MULTILINE)
_RESTRICTS = re.compile(r"\\(un)?restrict\b")
"""What `pg_dump` writes around a dump, so that it runs no other command of psql: our own are commands, too."""
_INCLUDE = re.compile(r"^\\(?:ir|include_relative)\s+(?:'([^']*)'|(\S+))", re.MULTILINE)


class Kind(Enum):
    """What a part of a script is."""

    SQL = "SQL"
    PSQL = r"a command of psql, such as \set"
    FILE = "a file that psql runs as a whole; the text is its path"
    PROGRAM = "a command of the shell"


@dataclass(frozen=True)
class Statement:
    """A part of a script that psql runs before it reads on."""

    text: str
    line: int
    """Where it begins in the script, from 1."""
    kind: Kind = Kind.SQL

    @property
    def short(self) -> str:
        """Its beginning in one line, without comments and rows, for people."""
        if self.kind is Kind.FILE:
            return Path(self.text).name
        text = _bare(self.text)
        if copied := _FROM_SCRIPT.match(text):
            text = copied[0]  # its lines are rows, and no statement
        line = " ".join(text.encode(errors="surrogateescape").decode(errors="replace").split()).rstrip("; ")
        return line if len(line) <= 200 else line[:199] + "…"

    def alike(self, other: "Statement") -> bool:
        """Whether both begin with the same three words, as INSERTs into one table do."""
        return self.text.split(None, 3)[:3] == other.text.split(None, 3)[:3]


def read(file: Path) -> list[Statement]:
    r"""The statements of a file. `\ir` finds its file beside this one."""

    def beside(found: re.Match[str]) -> str:
        return f"\\i '{file.resolve().parent / (found[1] or found[2])}'"

    return split(_INCLUDE.sub(beside, text_of(file)))


def text_of(file: Path) -> str:
    """A script's text as psql reads it. What is no UTF-8 stays what it is, by `surrogateescape`. Raises
    `script-in-utf-16`.
    """
    content = file.read_bytes()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Terminal(
            f"{file} is written in UTF-16, as PowerShell's > does, which psql does not read. Save it in UTF-8.",
            code="script-in-utf-16",
        )
    return content.removeprefix(codecs.BOM_UTF8).decode(errors="surrogateescape")


def split(text: str) -> list[Statement]:
    r"""The statements of a script, each with its data if it is `COPY … FROM stdin`, and `\if` to `\endif` as one.

    psql would run the same text alike if it were divided elsewhere, except within such data: only what is measured and
    named depends on the places.
    """
    found: list[Statement] = []
    at = start = first = counted = 0
    line = 1
    words: list[str] = []
    parentheses = atomic = conditions = 0
    begun = command = False

    def after_data(here: int) -> int:
        """Where the data of a COPY that ends here end: after their last line, else with the file."""
        nonlocal text
        if not _FROM_SCRIPT.match(_bare(text[start:here])):
            return here
        if not (mark := _END_OF_DATA.search(text, here)):
            text += "\n\\."
        return mark.end() if mark else len(text)

    def end(here: int) -> None:
        nonlocal start, parentheses, atomic, begun, command, line, counted
        if begun:
            line, counted = line + text.count("\n", counted, first), first
            kind = Kind.PSQL if command else Kind.SQL
            found.append(Statement(text[start:here].strip("\n").rstrip(), line, kind))
        start, begun, command, parentheses, atomic = here, False, False, 0, 0
        words.clear()

    while at < len(text):
        part = _PARTS.match(text, at)
        assert part is not None
        kind, at = part.lastgroup, part.end()
        if kind in ("space", "comment"):
            continue
        if kind == "block":
            at = _end_of_comment(text, at)
            continue
        if kind == "command":
            if not begun and _RESTRICTS.match(part[0]):
                start = at
                continue
            if not begun:
                begun, command, first = True, True, part.start()
            conditions += bool(re.match(r"\\if\b", part[0])) - bool(re.match(r"\\endif\b", part[0]))
            if (command or _SENDS.match(part[0])) and conditions <= 0:
                at = after_data(at)
                end(at)
            continue
        if command and conditions <= 0:  # cannot be: a command ends with its line
            end(part.start())
        if not begun:
            begun, first = True, part.start()
        if kind == "dollar":
            closing = text.find(part[0], at)
            at = len(text) if closing < 0 else closing + len(part[0])
        elif kind == "word":
            words.append(part[0].lower())
            if words[0] in ("create", "alter") and words[-2:] == ["begin", "atomic"]:
                atomic += 1
            elif atomic:
                atomic += (words[-1] == "case") - (words[-1] == "end")
        elif part[0] in "()":
            parentheses += 1 if part[0] == "(" else -1
        elif part[0] == ";" and parentheses <= 0 and not atomic:
            if conditions > 0:
                words.clear()
                continue
            at = after_data(at)
            end(at)
    if begun:
        end(len(text))
        last = found.pop()
        # psql sends what the end of a file leaves open.
        found.append(last if last.kind is Kind.PSQL else Statement(f"{last.text}\n;", last.line))
    return found


def _bare(text: str) -> str:
    """Without comments."""
    return re.sub(r"--[^\r\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def _end_of_comment(text: str, at: int) -> int:
    """Where a comment ends whose beginning ends at `at`; comments nest."""
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)
