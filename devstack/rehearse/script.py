"""Divides a script into the statements and commands that psql would run, one after the other. No I/O."""

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_PARTS = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--[^\n]*)
    | (?P<block>/\*)
    | (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*(?:'|\Z))
    | (?P<text>'(?:[^']|'')*(?:'|\Z))
    | (?P<name>"(?:[^"]|"")*(?:"|\Z))
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
_FROM_CLIENT = re.compile(r"\A\s*copy\b.*\bfrom\s+(stdin|pstdin)\b", re.IGNORECASE | re.DOTALL)
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
        """Its beginning in one line, without comments, for people."""
        if self.kind is Kind.FILE:
            return Path(self.text).name
        line = " ".join(re.sub(r"--[^\n]*|/\*.*?\*/", " ", self.text, flags=re.DOTALL).split()).rstrip("; ")
        return line if len(line) <= 200 else line[:199] + "…"


def read(file: Path) -> list[Statement]:
    r"""The statements of a file. `\ir` finds its file beside this one."""

    def beside(found: re.Match[str]) -> str:
        return f"\\i '{file.resolve().parent / (found[1] or found[2])}'"

    return split(_INCLUDE.sub(beside, file.read_text(encoding="utf-8-sig")))


def split(text: str) -> list[Statement]:
    r"""The statements of a script, each with its data if it is `COPY … FROM stdin`, and `\if` to `\endif` as one.

    psql would run the same text alike if it were divided elsewhere, except within such data: only what is measured and
    named depends on the places.
    """
    found: list[Statement] = []
    at = start = 0
    words: list[str] = []
    parentheses = atomic = conditions = 0
    begun = command = False

    def end(here: int) -> None:
        nonlocal start, parentheses, atomic, begun, command
        if begun:
            part = text[start:here]
            lead = len(part) - len(part.lstrip())
            found.append(
                Statement(
                    part.strip("\n").rstrip(), text.count("\n", 0, start + lead) + 1, Kind.PSQL if command else Kind.SQL
                )
            )
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
            if not begun:
                begun = command = True
            conditions += bool(re.match(r"\\if\b", part[0])) - bool(re.match(r"\\endif\b", part[0]))
            if (command or _SENDS.match(part[0])) and conditions <= 0:
                end(at)
            continue
        if command and conditions <= 0:  # cannot be: a command ends with its line
            end(part.start())
        begun = True
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
            if _FROM_CLIENT.match(_bare(text[start:at])):
                at = _end_of_data(text, at)
            end(at)
    if begun:
        end(len(text))
        last = found.pop()
        # psql sends what the end of a file leaves open.
        found.append(last if last.kind is Kind.PSQL else Statement(f"{last.text}\n;", last.line))
    return found


def _bare(text: str) -> str:
    return re.sub(r"--[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def _end_of_comment(text: str, at: int) -> int:
    """Where a comment ends whose beginning ends at `at`; comments nest."""
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _end_of_data(text: str, at: int) -> int:
    r"""Where the data of a COPY end: after the line `\.`, if there is one."""
    mark = re.compile(r"^\\\.[ \t]*$", re.MULTILINE).search(text, at)
    return mark.end() if mark else at
