"""The reports that runs of `resync` have written."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LATEST = 100
"""Reports that are listed."""
_NAME = re.compile(r"[\w-][\w.-]*")


@dataclass(frozen=True)
class Past:
    """A report: the name of its folder; of each pair its name, outcome and start."""

    name: str
    pairs: Sequence[tuple[str, str, str]]


def latest(folder: Path, pair: str = "") -> list[Past]:
    """Newest first; those alone that are about a pair, where one is given."""
    found: list[Past] = []
    folders = [one for one in folder.iterdir() if _NAME.fullmatch(one.name) and (one / "report.json").is_file()]
    for one in sorted(folders, key=lambda one: (one / "report.json").stat().st_mtime, reverse=True):
        try:
            pairs = json.loads((one / "report.json").read_text())
            outcomes = [(f"{each['prefix']} → {each['slave']}", each["outcome"], each["started"]) for each in pairs]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # of another release, or half removed
        if outcomes and (not pair or any(name == pair for name, _, _ in outcomes)):
            found.append(Past(one.name, outcomes))
        if len(found) == LATEST:
            break
    return found
