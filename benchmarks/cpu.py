"""CPU seconds of everything that took part in a run, by part.

A part is a process with all below it: its own time, that of living descendants, and what the kernel added to a parent
when a child was reaped. So short-lived backends and Python workers are counted, too (Linux).
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import psutil

TICK = os.sysconf("SC_CLK_TCK")
Roots = Callable[[], Mapping[str, int]]
"""Gives the process at the top of each part; asked at both ends of a run."""


def spent(pid: int) -> float:
    """The CPU seconds of one process and its reaped children since they began; 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = text[text.rindex(")") + 2 :].split()
    return sum(int(field) for field in fields[11:15]) / TICK


def below(pid: int) -> list[int]:
    """The process and its living descendants; those that end meanwhile are left out."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    return []


def by_part(roots: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds up to now of each part. A part inside another one is counted for itself alone."""
    families = {part: set(below(pid)) for part, pid in roots.items()}
    own = {
        part: family.difference(*(other for name, other in families.items() if name != part and other < family))
        for part, family in families.items()
    }
    return {part: sum(spent(pid) for pid in family) for part, family in own.items()}


class CpuWatch:
    """`with CpuWatch(roots) as watch: …`; afterwards `watch.seconds` holds what each part used inside."""

    def __init__(self, roots: Roots, *others: Roots) -> None:
        self._roots = (roots, *others)
        self.seconds: dict[str, float] = {}
        self._before: dict[str, float] = {}

    def __enter__(self) -> "CpuWatch":
        self._before = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        after = self._now()
        self.seconds = {part: round(after[part] - self._before.get(part, 0.0), 3) for part in after}

    def _now(self) -> dict[str, float]:
        return by_part({part: pid for roots in self._roots for part, pid in roots().items()})


def find(pids: Iterable[int], word: str) -> int | None:
    """The first of the processes whose name begins with `word`."""
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            if psutil.Process(pid).name().startswith(word):
                return pid
    return None
