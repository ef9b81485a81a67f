"""Takes positions on an Oracle master: the order of the steps is essential.

`tests/oracle/test_position_model.py` runs `take` against random histories of transactions, on one instance and on
several, and shows what is lost or comes twice if a step is left out or two are exchanged.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from sluice.counted import listed
from sluice.errors import Transient
from sluice.vendors.oracle.queue_position import Incarnation, QueuePosition, trans_key_of


@dataclass(frozen=True)
class Thread:
    """A thread of the redo log that is open, and the run of an instance that writes it."""

    number: int
    instance: str
    """The run of the instance; empty if it ended and its thread is not recovered yet."""


class InstanceLost(Transient):
    """An instance of the master ended or started while a position was taken, or is not recovered yet."""

    def __init__(self) -> None:
        super().__init__(
            "An instance of the master came or went, or is not recovered yet: what it committed last may be above the "
            "SCN of the others. The position is taken again when the set of instances is steady; if it stays so, look "
            "at GV$INSTANCE and V$THREAD."
        )


class Running(Protocol):
    """Queries of a master about running transactions, each a separate statement, outside a transaction."""

    def threads(self) -> Collection[Thread]:
        """The open threads."""
        ...

    def listed(self) -> Mapping[int, int]:
        """The listed running transactions of every instance, each with the SCN at which it began."""
        ...

    def prepared(self) -> Collection[int]:
        """The prepared transactions, on which another system has not decided yet."""
        ...

    def scns(self) -> Collection[int]:
        """The present SCN of each instance."""
        ...

    def pause(self) -> None:
        """Waits a moment."""
        ...


class Master(Running, Protocol):
    """Further queries of a master for a position."""

    def incarnation(self) -> Incarnation:
        """The database and its incarnation."""
        ...

    def draw(self) -> int:
        """The next number of the sequence, which is ORDER: numbers rise in the order in which they are drawn, on any
        instance."""
        ...

    def visible(self, scn: int, above: int, up_to: int, among: Collection[int]) -> Collection[int]:
        """The transactions with a change in ITEMS as of `scn`: with a key between these, or with any key for those
        of `among`."""
        ...

    def time(self) -> str:
        """The master's clock, ISO 8601, UTC."""
        ...


def take(master: Master, previous: QueuePosition | None = None) -> QueuePosition:
    """The position at which the master stands now; floors follow from `previous`.

    Why in this order:

    - `low` is drawn first. A transaction that begins later draws keys above it; so a transaction with a key up to
      `low` has ended by now, or is in `running`.
    - `scn` is at least the highest of all instances: what ended before `running` was read committed at or below it.
    - Once every instance has reached it, no transaction can commit below it any more. `high` is drawn after that: a
      transaction that is seen as of `scn` has drawn all its keys before.
    - What is seen as of `scn` decides. Of each running transaction any change counts, wherever its key lies: the list
      may name one that has committed, and is seen.
    - What begins after `running` was read has an SCN that is not below the lowest of all instances before that.
    - An instance that ended takes its SCN with it, and what it committed last may be above all others' until its thread
      is recovered. So the threads must be the same before and after, and each must have its instance.

    Raises `InstanceLost`, `master-replaced`, `sequence-went-back`.
    """
    threads = frozenset(master.threads())
    expect_steady(threads, threads)
    incarnation = master.incarnation()
    time = master.time()
    low = master.draw()
    since = min(master.scns())
    began = running(master)
    scn = max(master.scns())
    while min(master.scns()) < scn:
        master.pause()
        expect_steady(threads, master.threads())
    high = master.draw()
    expect_steady(threads, master.threads())
    visible = frozenset(master.visible(scn, low, high, began))
    left = frozenset(began) - visible
    oldest = min([since, *(began[transaction] for transaction in left)])
    return QueuePosition(low, high, left, visible, incarnation, scn, oldest, time=time).after(previous)


def running(master: Running) -> Mapping[int, int]:
    """The running transactions, each with the SCN at which it began; 0 if unknown.

    A prepared transaction may leave the list of running ones and return to it. It is in one of the two lists at any
    time; the list of running ones is read before and after the other, so that none is missed.
    """
    before = master.listed()
    prepared = dict.fromkeys(master.prepared(), 0)
    return {**prepared, **before, **master.listed()}


def expect_steady(before: Collection[Thread], now: Collection[Thread]) -> None:
    """Checks that each thread has its instance, and that they have not changed. Raises `InstanceLost`."""
    if not all(thread.instance for thread in before) or frozenset(before) != frozenset(now):
        raise InstanceLost


# Finds the SCN from which on a stream of redo lacks no transaction, so that rows can be read as of that SCN or a later
# one.
#
# OpenLogReplicator leaves out a transaction that began before the redo that it reads, whenever it commits. A row that
# is read while such a transaction runs lacks its changes, and the stream never brings them. So rows are read as of an
# SCN at which all of them have ended. They are found by their first SCN, which is below the one at which the stream
# begins.

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
