"""Errors of OpenLogReplicator's output. The merge stops there, and the stream has nothing of it."""

from pathlib import Path

from sluice.errors import DataLost, Terminal, Transient
from sluice.model.position import ScnPosition


def output_unreachable(folder: Path, reason: str) -> Transient:
    """The folder of the threads cannot be read at the moment, or has none."""
    return Transient(
        f"{folder}: {reason}. A folder <resetlogs>_<thread> is awaited there (docs/redo.md).", code="output-unreachable"
    )


def output_damaged(file: Path, offset: int, reason: str, remedy: str = "") -> Terminal:
    """A part of the output is not in the format of OpenLogReplicator 1.9.0 and docs/redo.md."""
    return Terminal(
        f"{file}, byte {offset}: {reason}. "
        + (
            remedy
            or "Put the file back as it was written, or have OpenLogReplicator write it again from its checkpoint"
        )
        + "; then start the merge again.",
        code="output-damaged",
    )


def thread_silent(thread: str, scn: int, seconds: float) -> Terminal:
    """One thread has been silent for long, and changes of others wait for it."""
    return Terminal(
        f"Thread {thread} has said nothing beyond SCN {scn} for {seconds:.0f} s, and transactions of other "
        "threads wait for it: one of its own may come before them. Start its OpenLogReplicator, with flag 4096; "
        f'or, where the instance is gone for good and all of its redo is read, write {{"closed": true}} into '
        f"{thread}/thread.json.",
        code="thread-silent",
    )


def thread_too_late(thread: str, since: int | None, released: int) -> Terminal:
    """A thread joins whose transactions should already have been merged."""
    reason = (
        f"is complete from SCN {since} on" if since is not None else "does not say from which SCN on it is complete"
    )
    return Terminal(
        f"Thread {thread} joins and {reason}, but the stream has all transactions up to SCN {released} without it. "
        f'Write {{"since": …}} into {thread}/thread.json where that SCN is a later one; else begin a new stream in '
        "another folder.",
        code="thread-too-late",
    )


def transaction_late(thread: str, xid: str, scn: int, released: int) -> Terminal:
    """A thread shows a transaction although it had announced that none of that SCN would come."""
    return Terminal(
        f"Thread {thread}: transaction {xid} of SCN {scn} comes after one of SCN {released}, and was not there "
        "before. Its place in the order of commits is past. Begin a new stream in another folder, with the "
        "output written again, and report this as a bug of Sluice: OpenLogReplicator 1.9.0 does not do that.",
        code="transaction-late",
    )


def beginning_lost(thread: str, xid: str, scn: int) -> Terminal:
    """The output has only the end of a transaction."""
    return Terminal(
        f"Thread {thread}: of transaction {xid}, SCN {scn}, only the end is there. Stop its OpenLogReplicator, "
        "put its checkpoint files back to an SCN before that, and start it and the merge again.",
        code="beginning-lost",
    )


class TakenBack(DataLost):
    """The master was opened with RESETLOGS at an SCN before the end of the stream."""

    def __init__(self, resetlogs: int, scn: int, released: int):
        super().__init__(
            f"The master was opened with RESETLOGS ({resetlogs}) at SCN {scn}, but the stream holds its transactions "
            f"up to SCN {released}: those from {scn} on do not exist any more. Begin a new stream in another folder, "
            "and load its slaves again."
        )


def begins_later(folder: Path, scn: int, begins: int) -> Terminal:
    """A transaction of the stream should end at an SCN before it."""
    return Terminal(
        f"{folder}: redo.ends_at names SCN {scn}, but capture begins with SCN {begins}, that of the schema "
        "checkpoint. Begin with an older schema checkpoint (redo.schema), or take that SCN out.",
        code="begins-later",
    )


def between_transactions(folder: Path, scn: int) -> Terminal:
    """No transaction of the stream ends at the SCN at which a slave has to continue."""
    return Terminal(
        f"{folder}: the slave has what was committed up to SCN {scn}, and no transaction of the stream ends there. "
        f"Write {scn} under redo.ends_at, and capture into another location, from a schema checkpoint of an SCN "
        "before that (docs/redo.md); or put the former capture back.",
        code="between-transactions",
    )


def older_open(folder: Path, position: ScnPosition, begins: int) -> Terminal:
    """Transactions ran at the SCN at which a slave has to continue, of which the stream has nothing."""
    return Terminal(
        f"{folder}: where the slave is, at SCN {position.scn}, transactions may have run that began before SCN "
        f"{begins}, with which the redo begins that is read, and the stream brings nothing of them. Put the former "
        "capture back, and have such transactions ended. When the position in the slave's checkpoint says "
        f'"oldest": {begins} or more, end the apply, write its "scn" under redo.ends_at, and capture into another '
        "location, from the same schema checkpoint (docs/redo.md).",
        code="older-open",
    )


def not_there_yet(folder: Path, scn: int, shown: int) -> Transient:
    """The stream has not reached the SCN at which a slave has to continue."""
    return Transient(
        f"{folder}: the slave has what was committed up to SCN {scn}, and the stream has come to SCN {shown}. It "
        "continues behind that when the DAG capture_redo has brought it.",
        code="not-there-yet",
    )


class BetweenCommits(Transient):
    """The stream ends between two commits of one SCN, so no SCN corresponds to its end."""

    def __init__(self, folder: Path):
        super().__init__(
            f"{folder}: the stream ends between two commits of one SCN, or before the SCN with which it begins: rows "
            "are read when it has come further."
        )


def other_incarnation(folder: Path, stream: int, master: int) -> DataLost:
    """The database whose rows are read is of another incarnation than the redo in the stream."""
    return DataLost(
        f"{folder}: the stream is of the incarnation {stream} (RESETLOGS_ID), but the database that redo.conn_id "
        f"names is of {master}. Name the database whose redo is captured; after RESETLOGS, capture the new "
        "incarnation from a schema checkpoint of it (docs/redo.md), then start the initial update again.",
        code="other-incarnation",
    )


def no_keys(folder: Path) -> Terminal:
    """There is no schema checkpoint with the keys of the tables."""
    return Terminal(
        f"{folder}: no thread's folder holds a schema checkpoint of OpenLogReplicator "
        "(<name>-chkpt-<SCN>.json), so the "
        "keys of the tables are not known. Copy the newest one from its state folder.",
        code="no-keys",
    )


class Unfit(Exception):
    """A message that does not fit the format; the reader of the file adds its place."""
