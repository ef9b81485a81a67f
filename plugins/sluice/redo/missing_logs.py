"""Whether reading a redo thread can continue: which logs that it needs are deleted, or may be deleted before they are
read. `judged` is pure, `LogWatch` asks and reports.

A log is identified by incarnation, thread and sequence, wherever a copy of it is: in the fast recovery area or outside
of it.
"""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from sluice import whole_files
from sluice.counted import duration
from sluice.database.redo_files import ArchivedLogs
from sluice.model.vendors import LOST_FILE

log = logging.getLogger("sluice.redo")

_GAP = re.compile(r"for seq: (?P<wanted>\d+), found: (?P<found>\d+)")
KEPT_FIRST = 0.25
"""A log is in danger if no more than this share of the master's logs is older."""
AREA_FULL = 0.85
"""Above this share of used space, the fast recovery area warns, and deletes what it may."""


class Danger(IntEnum):
    """The danger for the logs of a thread, in ascending order."""

    SOON = 1
    """They may be deleted before they are read."""
    ELSEWHERE = 2
    """They exist, but not where they are read."""
    GONE = 3
    """They do not exist, and a backup may have them."""
    OTHER_INCARNATION = 4
    """The master was opened with RESETLOGS."""
    LOST = 5
    """They do not exist, and the master knows no backup."""


@dataclass(frozen=True)
class Finding:
    """Logs `first` to `last` of a thread; `text`: what a person must know and do."""

    danger: Danger
    first: int
    last: int
    text: str


@dataclass(frozen=True)
class Need:
    """What a thread still has to read. `present`: sequences of the logs that are where they are read."""

    resetlogs: int
    thread: int
    first: int
    """The first needed sequence; 0 if only `scn` is known, before which no log is needed."""
    scn: int
    present: Collection[int]
    folders: Sequence[str] = ()
    """The folders on the master's machines from which logs are fetched; none: any."""


@dataclass
class _Log:
    """The master's data about one log."""

    names: list[str]
    """The paths of existing copies."""
    outside: bool
    """Whether one of them is outside of the fast recovery area."""
    backups: int


def judged(archived: ArchivedLogs, need: Need) -> Finding | None:
    """The greatest danger for a thread's logs; None if there is none, or nothing is known."""
    if archived.resetlogs and archived.resetlogs != need.resetlogs:
        text = (
            f"the master was opened with RESETLOGS and is in the incarnation {archived.resetlogs}; the logs of "
            f"{need.resetlogs} end. Begin with a schema checkpoint of the new one (redo.schema)"
        )
        return Finding(Danger.OTHER_INCARNATION, need.first, need.first, text)
    logs = _of_thread(archived, need)
    first = need.first or _holding(archived, need)
    if not logs or not first:
        return None
    newest = max(logs)
    needed = [sequence for sequence in range(first, newest + 1) if sequence not in need.present]
    dangers = {sequence: danger for sequence in needed if (danger := _danger(logs.get(sequence), need)) is not None}
    if dangers:
        worst = max(dangers.values())
        start = end = min(sequence for sequence, danger in dangers.items() if danger is worst)
        while dangers.get(end + 1) is worst:
            end += 1
        return Finding(worst, start, end, _text(worst, start, end, need, logs))
    return _soon(archived, need, logs, needed[0], newest) if needed else None


def explained(thread: int, message: str) -> Finding | None:
    """Interprets a program's message that it waits for a log; `message`: the message. None: another message."""
    gap = _GAP.search(message)
    if gap is None:
        return None
    first, last = int(gap["wanted"]), int(gap["found"]) - 1
    text = (
        f"{_named(first, last, thread)} not there, and later ones are. Where the master has deleted "
        f"{'it' if first == last else 'them'}, run in RMAN: {restore(first, last, thread)}; where no backup has "
        f"{'it' if first == last else 'them'} either, these changes are lost: begin a new stream and load the slaves "
        "again"
    )
    return Finding(Danger.GONE, first, last, text)


def no_beginning(thread: int, scn: int, folder: str) -> str:
    """Why a thread is not read yet."""
    return (
        f"no log of thread {thread} with SCN {scn} in it, with which its capture begins, is in {folder}: bring it, and "
        "all after it"
    )


def restore(first: int, last: int, thread: int) -> str:
    """The command of RMAN."""
    return f"RESTORE ARCHIVELOG {_sequences(first, last)} THREAD {thread}"


def _of_thread(archived: ArchivedLogs, need: Need) -> Mapping[int, _Log]:
    logs: dict[int, _Log] = {}
    for copy in archived.copies:
        if copy.resetlogs == need.resetlogs and copy.thread == need.thread:
            log = logs.setdefault(copy.sequence, _Log([], False, 0))
            log.backups = max(log.backups, copy.backups)
            if copy.there:
                log.names.append(copy.name)
                log.outside |= not copy.in_recovery_area
    return logs


def _holding(archived: ArchivedLogs, need: Need) -> int:
    """The sequence of the log with the SCN; 0 if no log is known that has it, or comes after it."""
    copies = [
        copy
        for copy in archived.copies
        if copy.resetlogs == need.resetlogs and copy.thread == need.thread and copy.next_scn > need.scn
    ]
    first = min(copies, key=lambda copy: copy.sequence, default=None)
    if first is None:
        return 0
    return first.sequence if first.first_scn <= need.scn else first.sequence - 1


def _danger(log: _Log | None, need: Need) -> Danger | None:
    if log is None:
        return Danger.GONE  # The control file forgets logs after CONTROL_FILE_RECORD_KEEP_TIME days.
    if not log.names:
        return Danger.GONE if log.backups else Danger.LOST
    if need.folders and not any(_below(name, folder) for name in log.names for folder in need.folders):
        return Danger.ELSEWHERE
    return None


def _below(name: str, folder: str) -> bool:
    """Whether a path is below a folder. A fast recovery area has a folder for each day, and names in a disk group have
    no case."""
    if folder.startswith("+"):
        name, folder = name.upper(), folder.upper()
    return name.startswith(folder.rstrip("/") + "/")


def _soon(archived: ArchivedLogs, need: Need, logs: Mapping[int, _Log], first: int, newest: int) -> Finding | None:
    """The finding if the logs from `first` on, which all exist, are among the next that the master deletes."""
    deleted = max((sequence for sequence, log in logs.items() if not log.names and sequence < first), default=None)
    behind = newest - first + 1
    why = ""
    if deleted is not None and behind > 1 and first - deleted - 1 < KEPT_FIRST * (newest - deleted):
        why = f"the master has deleted its logs up to {deleted}, and keeps {newest - deleted}"
    elif archived.area_used >= AREA_FULL and not logs[first].outside:
        why = f"its only copy is in the fast recovery area, of which {archived.area_used:.0%} is in use"
    if not why:
        return None
    text = (
        f"log {first} of thread {need.thread} is not read yet and may be deleted soon: {why}. Back up what is not read "
        f"yet, in RMAN: BACKUP ARCHIVELOG {_sequences(first, newest)} THREAD {need.thread}; and let RMAN delete no log "
        "that is younger than the capture is behind, or make room where logs are archived"
    )
    return Finding(Danger.SOON, first, newest, text)


def _text(danger: Danger, first: int, last: int, need: Need, logs: Mapping[int, _Log]) -> str:
    named, command = _named(first, last, need.thread), restore(first, last, need.thread)
    if need.folders:
        command = f"RUN {{ SET ARCHIVELOG DESTINATION TO '{need.folders[0]}'; {command}; }}"
    if danger is Danger.ELSEWHERE:
        folders = sorted({name.rpartition("/")[0] for each in range(first, last + 1) for name in logs[each].names})
        return (
            f"{named} in {', '.join(folders)} alone, which is none of the folders that are read "
            f"({', '.join(need.folders)}). Add that folder under redo.archived, and as a --root of the proxy; or run "
            f"in RMAN: {command}"
        )
    if danger is Danger.LOST:
        return f"{named} deleted on the master, which knows of no backup. If there is one, CATALOG it, then {command}"
    if first in logs:
        return f"{named} deleted on the master, which knows of a backup. In RMAN: {command}"
    return f"{named} not there, and the master's control file lists no such log. If a backup has it, in RMAN: {command}"


def _named(first: int, last: int, thread: int) -> str:
    if first == last:
        return f"log {first} of thread {thread} is"
    return f"logs {first} to {last} of thread {thread} are"


def _sequences(first: int, last: int) -> str:
    return f"SEQUENCE {first}" if first == last else f"FROM SEQUENCE {first} UNTIL SEQUENCE {last}"


# Watches whether the archived logs that a redo thread still needs exist, according to the master.
#
# A lost log ends the stream at the place of its changes: a file `lost` in the thread's folder tells this to the
# merge, which tells the slaves. When the log is there again, the file is deleted.


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
