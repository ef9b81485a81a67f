"""Reports of earlier runs of `resync`."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_NAME = re.compile(r"[\w-][\w.-]*")


@dataclass(frozen=True)
class Past:
    """A report: the name of its folder; name, outcome and start of each pair."""

    name: str
    pairs: Sequence[tuple[str, str, str]]


def latest(folder: Path, pair: str = "", most: int = 100) -> list[Past]:
    """The latest reports, newest first. With a pair: only reports about it."""
    reports: list[Past] = []
    changed: dict[Path, int] = {}
    for one in folder.iterdir():
        with suppress(OSError):  # without a report, or being removed
            if _NAME.fullmatch(one.name):
                changed[one / "report.json"] = (one / "report.json").stat().st_mtime_ns
    for file in sorted(changed, key=changed.__getitem__, reverse=True):
        if pairs := [named for named in _pairs(file, changed[file]) if pair in ("", named[0])]:
            reports.append(Past(file.parent.name, pairs))
        if len(reports) == most:
            break
    return reports


@lru_cache(maxsize=2000)
def _pairs(file: Path, changed: int) -> tuple[tuple[str, str, str], ...]:
    """The pairs of a report. Cached, since pages ask every few seconds and a report over all pairs is long.

    `changed`: when the file was last written.
    """
    try:
        pairs = json.loads(file.read_text())
        return tuple((f"{each['prefix']} → {each['slave']}", each["outcome"], each["started"]) for each in pairs)
    except (OSError, ValueError, KeyError, TypeError):
        return ()  # of another release, or partly removed
