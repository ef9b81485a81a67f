"""Watches whether the archived logs that a redo thread still needs exist, according to the master.

A lost log ends the stream at the place of its changes: a file `lost` in the thread's folder tells this to the merge,
which tells the slaves. When the log is there again, the file is deleted.
"""

import logging
from pathlib import Path

from sluice import whole_files
from sluice.counted import duration
from sluice.database.archived_logs import ArchivedLogs
from sluice.model.vendors import LOST_FILE
from sluice.redo.missing_logs import Danger, Finding, Need, judged

log = logging.getLogger("sluice.redo")

GIVEN_UP = "Its changes are given up: the slaves become INCONSISTENT where it begins"


class LogWatch:
    """The watch of a thread. `spool`: its folder for the merge. `grace`: seconds after which a lost log is given up."""

    def __init__(self, spool: Path, grace: float):
        self.finding: Finding | None = None
        """The result of the master's last answer."""
        self._file = spool / LOST_FILE
        self._grace = grace
        self._since: float | None = None
        """When the loss that stops the thread was found."""
        self._begins_late = ""
        """Why the thread is not read although its logs may exist."""

    def give_up(self, reason: str) -> None:
        """Redo of the thread that the stream needs is not read."""
        if reason != self._begins_late:
            self._begins_late = reason
            self._write(f"{reason}; delete this file then, and start capture_redo again")

    def check(self, archived: ArchivedLogs, need: Need, *, idle: bool, now: float) -> None:
        """`idle`: the thread's program has sent everything that it could read. `now`: seconds, of any clock."""
        if self._begins_late:
            return
        finding = judged(archived, need)
        if finding is not None and (self.finding is None or finding.text != self.finding.text):
            log.warning("thread %d: %s", need.thread, finding.text)
        self.finding = finding
        if finding is None or finding.danger is not Danger.LOST or finding.first != need.first:
            self._since = None
            if finding is None:
                self._file.unlink(missing_ok=True)
            return
        if self._since is None:
            self._since = now
        if idle and now - self._since >= self._grace and not self._file.exists():
            self._write(finding.text)

    def explained(self) -> str:
        """What a person must do; empty if nothing."""
        if self._begins_late:
            return f"{self._begins_late}; delete {self._file} then. {GIVEN_UP}"
        if self.finding is None:
            return ""
        if self._file.exists():
            return f"{self.finding.text}. {GIVEN_UP}"
        if self.finding.danger is Danger.LOST:
            left = f"{duration(self._grace)} after all before it was read"
            return f"{self.finding.text}. Unless it comes back the slaves become INCONSISTENT {left}"
        return self.finding.text

    def _write(self, reason: str) -> None:
        log.error("%s: %s", self._file, reason)
        whole_files.write(self._file, reason)
