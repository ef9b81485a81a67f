"""Compares what psql printed on a plain and on a captured server. No I/O."""

import difflib
import re
from collections.abc import Sequence

from devstack.rehearse.psql import Outcome

_TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,6}([+-]\d\d(:?\d\d)*)?")
_UUIDS = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_MESSAGE = re.compile(r"(psql:\S+ )?(ERROR|WARNING|NOTICE|FATAL|PANIC): ")


def normal(text: str, own: Sequence[str]) -> list[str]:
    """The lines without what depends on the number, names and length of other lines.

    Lines that name one of `own`, texts in names of Sluice's objects, are left out unless they are an error's or a
    warning's. Times with fractions of a second and UUIDs stand for themselves, since each server has its own.
    """
    found = []
    for line in text.splitlines():
        line = re.sub(r"[-+]{2,}", "--", re.sub(r"\s+", " ", line).strip())
        line = _UUIDS.sub("UUID", _TIMES.sub("TIME", re.sub(r"\(\d+ rows?\)", "(rows)", line)))
        named = any(name in line for name in own) and not _MESSAGE.match(line)
        if line and not named and line not in ("Triggers:", "Disabled user triggers:"):
            found.append(line)
    return found


def different_lines(plain: Sequence[str], captured: Sequence[str]) -> list[str]:
    """The lines that only one of both has: `- ` of the plain server, `+ ` of the captured one."""
    if sorted(plain) == sorted(captured):
        return []  # without ORDER BY, rows come in any order
    return [line for line in difflib.ndiff(plain, captured) if line[:2] in ("- ", "+ ")]


def difference(plain: Outcome, captured: Outcome, own: Sequence[str], *, results: bool = True) -> list[str]:
    """How a statement ends otherwise with capture than without; nothing if it ends alike.

    `results`: whether results count, too, not only messages; writers beside it make other results on each server.
    """
    both = [normal(outcome.output, own) for outcome in (plain, captured)]
    if not results:
        both = [[line for line in lines if _MESSAGE.match(line)] for lines in both]
    lines = different_lines(*both)
    if not lines and (plain.sqlstate, plain.ended) != (captured.sqlstate, captured.ended):
        lines = [f"- SQLSTATE {plain.sqlstate}", f"+ SQLSTATE {captured.sqlstate}"]
    return lines
