"""Takes positions on an Oracle master: the order of the steps is essential.

`tests/oracle/test_position_model.py` runs `take` against random histories of transactions, on one instance and on
several, and shows what is lost or comes twice if a step is left out or two are exchanged.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from sluice.errors import Transient
from sluice.vendors.oracle.queue_position import Incarnation, QueuePosition


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
