"""Finds the SCN from which on a stream of redo lacks no transaction, so that rows can be read as of that SCN or a
later one.

OpenLogReplicator leaves out a transaction that began before the redo that it reads, whenever it commits. A row that
is read while such a transaction runs lacks its changes, and the stream never brings them. So rows are read as of an
SCN at which all of them have ended. They are found by their first SCN, which is below the one at which the stream
begins.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sluice.counted import listed
from sluice.errors import Transient
from sluice.vendors.oracle.queue_position import trans_key_of
from sluice.vendors.oracle.source.position import Running, expect_steady, running

SHOWN = 5
"""The number of transactions that are listed one by one."""


@dataclass(frozen=True)
class Observation:
    """The running transactions of a master."""

    older: Mapping[int, int]
    """The transactions that the stream lacks, each with the SCN at which it began; 0 if unknown."""
    scn: int
    """Transactions that have ended had ended at or below this SCN."""


@dataclass(frozen=True)
class Owner:
    """What the master tells about the owner of a transaction."""

    since: str
    """By the master's clock."""
    instance: int
    session: str
    """`SID,SERIAL#`; empty without a session."""
    account: str
    program: str


def observe(master: Running, begins: int) -> Observation:
    """`begins`: the SCN with which the stream begins.

    - Once every instance has come to `begins`, no transaction begins below it any more.
    - One whose beginning is not known, as of some prepared ones, is as old as any.
    - The SCN is asked behind that, of all instances: what was not there any more committed at or below it. An instance
      that ended takes its SCN with it, so there must be the same ones before and after.

    Raises `InstanceLost`.
    """
    threads = frozenset(master.threads())
    expect_steady(threads, threads)
    while min(master.scns()) < begins:
        master.pause()
        expect_steady(threads, master.threads())
    seen = running(master)
    scn = max(master.scns())
    expect_steady(threads, master.threads())
    return Observation({xid: began for xid, began in seen.items() if began < begins}, scn)


def older_transactions(server: str, begins: int, older: Mapping[int, int], owners: Mapping[int, Owner]) -> Transient:
    """Transactions run that the stream lacks."""
    texts = [_text(xid, began, owners.get(xid)) for xid, began in sorted(older.items(), key=lambda each: each[::-1])]
    return Transient(
        f"{server}: transactions run that began before SCN {begins}, with which the redo begins that is read. The "
        "stream brings nothing of them, so no rows are read before they have ended; then it continues. "
        f"Have them committed or rolled back. {listed(texts, SHOWN)}.",
        code="older-transactions",
    )


def threads_unread(server: str, threads: Collection[int]) -> Transient:
    """Open instances of the master whose redo is not in the stream."""
    return Transient(
        f"{server}: redo threads of the master are open that are not in the stream: "
        f"{listed(sorted(threads))}. Rows are read when they are: write them under redo.threads, or all, bring "
        "their logs, and start capture_redo again.",
        code="threads-unread",
    )


def stream_behind(server: str, complete_from: int, shown: int) -> Transient:
    """The last transaction that the stream lacks has ended, and the stream has not reached that SCN."""
    return Transient(
        f"{server}: the last transaction that began before the redo that is read had ended by SCN {complete_from}, "
        f"and the stream has come to SCN {shown}. Rows are read when it has come there; on the master, ALTER "
        "SYSTEM ARCHIVE LOG CURRENT brings it sooner.",
        code="stream-behind",
    )


def _text(xid: int, began: int, owner: Owner | None) -> str:
    """One of them, with the statement that ends it."""
    key = trans_key_of(xid)
    text = f"Transaction {key}, of SCN {began or 'unknown'}"
    if owner is None or not owner.session:
        force = f"COMMIT FORCE '{key}' or ROLLBACK FORCE '{key}'"
        return f"{text}, is prepared or has no session ({force} ends it where nobody else decides)"
    kill = f"ALTER SYSTEM KILL SESSION '{owner.session},@{owner.instance}' rolls it back"
    return f"{text}, runs since {owner.since} by the master's clock, of {owner.account}, {owner.program} ({kill})"
