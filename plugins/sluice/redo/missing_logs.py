"""Whether a redo thread can be read on: which logs that it needs are gone, or may go before they are read. Pure.

A log is known by its incarnation, its thread and its sequence, wherever a copy of it lies: in the fast recovery area or
outside of it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from sluice.database.archived_logs import ArchivedLogs

_GAP = re.compile(r"for seq: (?P<wanted>\d+), found: (?P<found>\d+)")
KEPT_FIRST = 0.25
"""A log is about to be deleted when so small a part of what the master keeps is older."""
AREA_FULL = 0.85
"""Above this part of its space in use, the fast recovery area warns, and deletes what it may."""


class Danger(IntEnum):
    """What it is with the logs of a thread, the worst last."""

    SOON = 1
    """They may be deleted before they are read."""
    ELSEWHERE = 2
    """They are there, but not where they are read."""
    GONE = 3
    """They are not there, and a backup may have them."""
    OTHER_INCARNATION = 4
    """The master was opened with RESETLOGS."""
    LOST = 5
    """They are not there, and the master knows of no backup."""


@dataclass(frozen=True)
class Finding:
    """Logs `first` to `last` of a thread; `text`: what a person must know and do."""

    danger: Danger
    first: int
    last: int
    text: str


@dataclass(frozen=True)
class Need:
    """What a thread still reads. `here`: sequences of logs that lie where they are read."""

    resetlogs: int
    thread: int
    first: int
    """The sequence from which on logs are needed; 0 where only `scn` is known, below which none is."""
    scn: int
    here: Collection[int]
    folders: Sequence[str] = ()
    """Where logs are fetched from, on the master's machines; none: anywhere."""


@dataclass
class _Log:
    """What the master says of one log."""

    names: list[str]
    """Copies that are there."""
    outside: bool
    """One of them is not in the fast recovery area."""
    backups: int


def judged(said: ArchivedLogs, need: Need) -> Finding | None:
    """The worst that can be said of a thread's logs; None while all is well, or nothing is known."""
    if said.resetlogs and said.resetlogs != need.resetlogs:
        text = (
            f"the master was opened with RESETLOGS and is in the incarnation {said.resetlogs}; the logs of "
            f"{need.resetlogs} end. Begin with a schema checkpoint of the new one (redo.schema)"
        )
        return Finding(Danger.OTHER_INCARNATION, need.first, need.first, text)
    logs = _of_thread(said, need)
    first = need.first or _holding(said, need)
    if not logs or not first:
        return None
    newest = max(logs)
    needed = [sequence for sequence in range(first, newest + 1) if sequence not in need.here]
    dangers = {sequence: found for sequence in needed if (found := _danger(logs.get(sequence), need)) is not None}
    if dangers:
        worst = max(dangers.values())
        start = end = min(sequence for sequence, danger in dangers.items() if danger is worst)
        while dangers.get(end + 1) is worst:
            end += 1
        return Finding(worst, start, end, _text(worst, start, end, need, logs))
    return _soon(said, need, logs, needed[0], newest) if needed else None


def explained(thread: int, said: str) -> Finding | None:
    """What a program means that waits for a log; `said`: OpenLogReplicator's words. None: another thing."""
    gap = _GAP.search(said)
    if gap is None:
        return None
    first, last = int(gap["wanted"]), int(gap["found"]) - 1
    text = (
        f"{_named(first, last, thread)} not there, and later ones are. Where the master has deleted "
        f"{'it' if first == last else 'them'}, run in RMAN: {restore(first, last, thread)}; where no backup has "
        f"{'it' if first == last else 'them'} either, these changes are lost: begin a new stream and load the slaves "
        "anew"
    )
    return Finding(Danger.GONE, first, last, text)


def no_beginning(thread: int, scn: int, folder: str) -> str:
    """Why a thread is not read yet."""
    return (
        f"no log of thread {thread} with SCN {scn} in it, with which its capture begins, is in {folder}: bring it, and "
        "all after it"
    )


def restore(first: int, last: int, thread: int) -> str:
    """A command of RMAN."""
    return f"RESTORE ARCHIVELOG {_sequences(first, last)} THREAD {thread}"


def _of_thread(said: ArchivedLogs, need: Need) -> Mapping[int, _Log]:
    found: dict[int, _Log] = {}
    for copy in said.copies:
        if copy.resetlogs == need.resetlogs and copy.thread == need.thread:
            log = found.setdefault(copy.sequence, _Log([], False, 0))
            log.backups = max(log.backups, copy.backups)
            if copy.there:
                log.names.append(copy.name)
                log.outside |= not copy.in_recovery_area
    return found


def _holding(said: ArchivedLogs, need: Need) -> int:
    """The sequence of the log that has the SCN; 0 where none is known that has it, or comes after it."""
    found = [
        copy
        for copy in said.copies
        if copy.resetlogs == need.resetlogs and copy.thread == need.thread and copy.next_scn > need.scn
    ]
    first = min(found, key=lambda copy: copy.sequence, default=None)
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
    """A fast recovery area has a folder for each day; names in a disk group have no case."""
    if folder.startswith("+"):
        name, folder = name.upper(), folder.upper()
    return name.startswith(folder.rstrip("/") + "/")


def _soon(said: ArchivedLogs, need: Need, logs: Mapping[int, _Log], first: int, newest: int) -> Finding | None:
    """The logs from `first` on are all there. Are they among the next that the master deletes?"""
    deleted = max((sequence for sequence, log in logs.items() if not log.names and sequence < first), default=None)
    behind = newest - first + 1
    why = ""
    if deleted is not None and behind > 1 and first - deleted - 1 < KEPT_FIRST * (newest - deleted):
        why = f"the master has deleted its logs up to {deleted}, and keeps {newest - deleted}"
    elif said.area_used >= AREA_FULL and not logs[first].outside:
        why = f"its only copy is in the fast recovery area, of which {said.area_used:.0%} is in use"
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
