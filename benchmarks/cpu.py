"""CPU seconds of everything that took part in a run, by part.

A part is a process with all below it: its own time, that of living descendants, and what the kernel added to a parent
when a child was reaped. So short-lived backends and Python workers are counted, too (Linux). The kernel adds nothing to
a parent that ignores the end of its children, as Spark's daemon of Python workers does.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

TICK = os.sysconf("SC_CLK_TCK")
Roots = Callable[[], Mapping[str, int]]
"""Gives the process at the top of each part; asked at both ends of a run."""


@dataclass(frozen=True)
class Spent:
    """CPU seconds of one process since it began."""

    parent: int
    own: float
    reaped: float
    """Of its children that ended, as far as the kernel added them."""

    @property
    def seconds(self) -> float:
        return self.own + self.reaped


def spent(pid: int) -> Spent | None:
    """What one process has used; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    user, system, reaped_user, reaped_system = (int(field) / TICK for field in fields[11:15])
    return Spent(int(fields[1]), user + system, reaped_user + reaped_system)


def below(pid: int) -> list[int]:
    """The process and its living descendants; those that end meanwhile are left out."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    return []


def by_part(roots: Mapping[str, int]) -> dict[str, dict[int, Spent]]:
    """The processes of each part, with what they used up to now. A part inside another one is counted for itself
    alone."""
    families = {part: set(below(pid)) for part, pid in roots.items()}
    own = {
        part: family.difference(*(other for name, other in families.items() if name != part and other < family))
        for part, family in families.items()
    }
    return {part: {pid: used for pid in family if (used := spent(pid)) is not None} for part, family in own.items()}


def between(before: Mapping[int, Spent], after: Mapping[int, Spent]) -> float:
    """The CPU seconds of a part from one moment to the next.

    What a process had used before is not counted, whether the kernel added it to a parent or to nobody when it ended.
    """
    ended: dict[int, float] = {}
    for pid, used in before.items():
        if pid not in after:
            ancestor = used.parent
            while ancestor in before and ancestor not in after:
                ancestor = before[ancestor].parent
            ended[ancestor] = ended.get(ancestor, 0.0) + used.seconds
    seconds = sum(used.seconds for used in after.values()) - sum(used.seconds for used in before.values())
    for ancestor, lost in ended.items():
        added = after[ancestor].reaped - before[ancestor].reaped if ancestor in before and ancestor in after else 0.0
        seconds += max(0.0, lost - added)
    return seconds


class CpuWatch:
    """`with CpuWatch(roots) as watch: …`; afterwards `watch.seconds` holds what each part used inside."""

    def __init__(self, roots: Roots, *others: Roots) -> None:
        self._roots = (roots, *others)
        self.seconds: dict[str, float] = {}
        self._before: dict[str, dict[int, Spent]] = {}

    def __enter__(self) -> "CpuWatch":
        self._before = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        after = self._now()
        self.seconds = {part: round(between(self._before.get(part, {}), after[part]), 3) for part in after}

    def _now(self) -> dict[str, dict[int, Spent]]:
        return by_part({part: pid for roots in self._roots for part, pid in roots().items()})


def find(pids: Iterable[int], word: str) -> int | None:
    """The first of the processes whose name begins with `word`."""
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            if psutil.Process(pid).name().startswith(word):
                return pid
    return None
