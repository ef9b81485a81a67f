"""Redo of a master that nobody reads: of threads that are not read, and of a later incarnation.

The stream has the commits of a thread in the order of all commits, or not at all. So the merge waits where redo of a
thread begins that nobody reads.
"""

import json
import logging
import threading
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from sluice.model.vendors import DESCRIPTION_FILE

log = logging.getLogger("sluice.redo")


class Stretch(Protocol):
    """A place in redo: a log, or a statement about one."""

    @property
    def resetlogs(self) -> int: ...
    @property
    def thread(self) -> int: ...
    @property
    def first_scn(self) -> int: ...
    @property
    def next_scn(self) -> int | None:
        """None: the log is still being written."""
        ...


class UnreadRedo:
    """The unread redo of one master.

    `threads`: the folder of the threads' folders. `scn`: the SCN at which capture begins. `every`: all found threads
    are read.
    """

    def __init__(self, threads: Path, resetlogs: int, scn: int, *, every: bool = False):
        self._threads, self._resetlogs, self._scn, self._every = threads, resetlogs, scn, every
        self._begins: dict[int, int] = {}
        self._later = 0
        self._lock = threading.Lock()
        """Held while observations are added: several threads observe."""
        self.text = ""
        """What a person must do."""

    def saw(self, seen: Collection[Stretch], read: Collection[int]) -> set[int]:
        """The threads that nobody reads, except `read`, from all observations. Raises `OSError`."""
        with self._lock:
            for number, scn in unread(seen, self._resetlogs, read, self._scn).items():
                self._begins[number] = min(scn, self._begins.get(number, scn))
            left = {number: scn for number, scn in self._begins.items() if number not in read}
            self._later = max([self._later, *(each.resetlogs for each in seen)])
            awaited = hold_back(self._threads, self._resetlogs, left)
            later = _later_text(self._later, self._resetlogs)
            named = "" if self._every else _threads_text(awaited, self._threads)
            self.text = " ".join(filter(None, [named, later]))
            return set(awaited)


def unread(seen: Iterable[Stretch], resetlogs: int, read: Collection[int], scn: int) -> dict[int, int]:
    """Threads that nobody reads although they have redo above `scn`, with the SCN from which it begins.

    `read`: the threads that are read. An added instance has its own thread.
    """
    begins: dict[int, int] = {}
    for each in seen:
        behind = each.next_scn is None or each.next_scn > scn
        if each.resetlogs == resetlogs and each.thread not in read and behind:
            begins[each.thread] = min(each.first_scn, begins.get(each.thread, each.first_scn))
    return begins


def hold_back(threads: Path, resetlogs: int, left: Mapping[int, int]) -> dict[int, int]:
    """Makes the merge wait where redo of an unread thread begins. Returns these threads.

    `left`: threads, each with the first needed SCN. Closed threads are not needed.
    """
    for number, scn in left.items():
        folder = threads / f"{resetlogs}_{number}"
        if not folder.exists():
            log.warning("thread %d of the master has redo from SCN %d on", number, scn)
            making = threads / f".{folder.name}"
            making.mkdir(parents=True, exist_ok=True)
            (making / DESCRIPTION_FILE).write_text(json.dumps({"since": scn}), "utf-8")
            making.rename(folder)
    return {number: scn for number, scn in sorted(left.items()) if not closed(threads / f"{resetlogs}_{number}")}


def closed(folder: Path) -> bool:
    """Whether a person has declared that nothing of the thread is needed."""
    try:
        return json.loads((folder / DESCRIPTION_FILE).read_text("utf-8")).get("closed") is True
    except (OSError, ValueError, AttributeError):
        return False


def _threads_text(awaited: Mapping[int, int], threads: Path) -> str:
    if not awaited:
        return ""
    named = ", ".join(f"{number} (from SCN {scn} on)" for number, scn in awaited.items())
    return (
        f"The master has redo of threads that are not under redo.threads: {named}. The merge waits where it begins. "
        "Add them there, with their logs, and start capture_redo again; or, where it is not wanted, write "
        f'{{"closed": true}} into {DESCRIPTION_FILE} of their folders in {threads}.'
    )


def _later_text(later: int, resetlogs: int) -> str:
    if later <= resetlogs:
        return ""
    return (
        f"There are logs of the incarnation {later}: the master was opened with RESETLOGS, and what is read is of "
        f"{resetlogs}. Continue with a schema checkpoint of the new one (redo.schema)."
    )
