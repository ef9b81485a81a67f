"""The order in which transactions of several redo threads become one stream: that of their commits. No I/O.

A transaction is released once every live thread has passed the SCN of its commit: then none can come before it. A
thread passes an SCN by a checkpoint message, which follows all commits below it. What OpenLogReplicator writes again
after a restart is recognized by thread and xid, and ignored.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from sluice.vendors.stream.redo.errors import TakenBack, beginning_lost, thread_too_late, transaction_late

REMEMBERED = 200_000
"""The number of a thread's transactions that are recognized when they come again."""


class ThreadId(NamedTuple):
    """A redo thread of one incarnation of the master."""

    resetlogs: int
    thread: int

    def __str__(self) -> str:
        return f"{self.resetlogs}_{self.thread}"


class Segment(NamedTuple):
    """A part of a file, in bytes."""

    file: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """A committed transaction, and the place of its messages."""

    thread: ThreadId
    xid: str
    scn: int
    time: int | None
    rows: int
    """The number of messages between its begin and its commit."""
    segments: tuple[Segment, ...]
    """None if only its end was written again."""
    schemas: frozenset[bytes] = frozenset()
    """The descriptions of tables in its messages."""
    ddl: bool = False
    """Whether DDL is among its messages."""


@dataclass
class Released:
    """The contents of the stream: all transactions below `scn`, and the listed ones with `scn` itself."""

    scn: int = 0
    last: frozenset[tuple[ThreadId, str]] = frozenset()

    def add(self, transaction: Transaction) -> None:
        """Adds the next transaction."""
        own = (transaction.thread, transaction.xid)
        self.last = self.last | {own} if transaction.scn == self.scn else frozenset({own})
        self.scn = transaction.scn

    def holds(self, transaction: Transaction) -> bool:
        return transaction.scn < self.scn or (
            transaction.scn == self.scn and (transaction.thread, transaction.xid) in self.last
        )


@dataclass
class _Thread:
    watermark: int
    """All commits below this SCN were offered."""
    floor: int
    """Transactions below this SCN are not remembered."""
    closed: bool = False
    highest: int = 0
    seen: "OrderedDict[str, int]" = field(default_factory=OrderedDict)


class Merge:
    """Takes transactions of threads in any order, and releases them in the order of commits."""

    def __init__(self, released: Released, incarnations: Iterable[tuple[int, int]] = ()):
        """`incarnations`: RESETLOGS_ID and first SCN of each incarnation of the master so far."""
        self.released = Released(released.scn, released.last)
        self._ends: dict[int, int] = {}
        self._begins: dict[int, int] = {}
        self._threads: dict[ThreadId, _Thread] = {}
        self._waiting: list[tuple[int, ThreadId, int, Transaction]] = []
        self._offered = 0
        self.incarnate(incarnations)

    def incarnate(self, incarnations: Iterable[tuple[int, int]]) -> None:
        """Updates the incarnations of the master."""
        incarnations_known = sorted({**self._begins, **dict(incarnations)}.items(), key=lambda each: each[1])
        self._begins = dict(incarnations_known)
        self._ends = {before: scn for (before, _), (_, scn) in pairwise(incarnations_known)}

    def join(self, thread: ThreadId, *, since: int | None = None, watermark: int | None = None) -> None:
        """Adds a thread. `watermark`: the stored one; None for a new thread, which is complete from `since` on. Raises
        `thread-too-late`, `TakenBack`."""
        begins = self._begins.get(thread.resetlogs, 0)
        continued = any(each.resetlogs == thread.resetlogs for each in self._threads)
        if watermark is None and self.released.scn and not continued and 0 < begins <= self.released.scn:
            raise TakenBack(thread.resetlogs, begins, self.released.scn)
        if watermark is None and self.released.scn:
            first = begins if since is None and begins > self.released.scn else since
            if first is None or first <= self.released.scn:
                raise thread_too_late(str(thread), first, self.released.scn)
            start = first
        else:
            start = watermark if watermark is not None else max(since or 0, begins)
        self._threads[thread] = _Thread(start, floor=max(start, self.released.scn + 1))

    def close(self, thread: ThreadId) -> None:
        """Closes a thread: nothing more will come from it."""
        self._threads[thread].closed = True

    def checkpoint(self, thread: ThreadId, scn: int) -> None:
        """Records that all commits of the thread below `scn` were offered."""
        state = self._threads[thread]
        state.watermark = max(state.watermark, scn)

    def offer(self, transaction: Transaction) -> bool:
        """Offers a transaction. Returns whether it is new. Raises `transaction-late`."""
        state = self._threads[transaction.thread]
        if state.seen.get(transaction.xid) == transaction.scn:
            return False
        end = self._ends.get(transaction.thread.resetlogs)
        if end is not None and transaction.scn >= end:
            return False  # The master no longer has it.
        if self.released.holds(transaction) or transaction.scn < state.watermark:
            if transaction.scn >= state.floor:
                raise transaction_late(
                    str(transaction.thread), transaction.xid, transaction.scn, max(self.released.scn, state.watermark)
                )
            if self.released.holds(transaction):
                return False
        if not transaction.segments:
            raise beginning_lost(str(transaction.thread), transaction.xid, transaction.scn)
        state.seen[transaction.xid] = transaction.scn
        # A waiting transaction is remembered: nothing else would recognize it when it comes again.
        while len(state.seen) > REMEMBERED and next(iter(state.seen.values())) < self.released.scn:
            _, scn = state.seen.popitem(last=False)
            state.floor = max(state.floor, scn + 1)
        state.highest = max(state.highest, transaction.scn)
        self._offered += 1
        heappush(self._waiting, (transaction.scn, transaction.thread, self._offered, transaction))
        return True

    def ready(self) -> Transaction | None:
        """The next transaction in the order of commits; None if an earlier one may still come."""
        if not self._waiting or self._waiting[0][0] >= self._below():
            return None
        transaction = heappop(self._waiting)[-1]
        self.released.add(transaction)
        return transaction

    @property
    def next_scn(self) -> int | None:
        """The SCN of the transaction that `ready` returns next; None if it returns none."""
        return self._waiting[0][0] if self._waiting and self._waiting[0][0] < self._below() else None

    @property
    def through(self) -> int | None:
        """The SCN up to which exactly the commits are released; None between two commits of one SCN."""
        scn, below = self.released.scn, self._below()
        if self._waiting and self._waiting[0][0] <= scn:
            return None
        following = min(below, self._waiting[0][0]) if self._waiting else below
        return max(scn, int(following) - 1) if following != float("inf") else scn

    @property
    def waiting(self) -> int:
        """The number of transactions that are not released."""
        return len(self._waiting)

    def resume(self) -> dict[ThreadId, tuple[Segment | None, int]]:
        """For each thread, the beginning of its first waiting transaction, and the watermark there."""
        first: dict[ThreadId, tuple[int, Segment]] = {}
        marks = {thread: each.watermark for thread, each in self._threads.items()}
        for scn, thread, number, transaction in self._waiting:
            if thread not in first or number < first[thread][0]:
                first[thread] = (number, transaction.segments[0])
            # What is read again from there must be offered before others pass it.
            marks[thread] = min(marks[thread], scn)
        return {thread: (first[thread][1] if thread in first else None, mark) for thread, mark in marks.items()}

    def holding(self) -> tuple[ThreadId, int] | None:
        """The thread for which transactions wait, and its watermark."""
        if not self._waiting:
            return None
        live = [(each.watermark, thread) for thread, each in self._threads.items() if not self._passed(thread, each)]
        return (min(live)[1], min(live)[0]) if live else None

    def _below(self) -> float:
        live = [each.watermark for thread, each in self._threads.items() if not self._passed(thread, each)]
        return min(live, default=float("inf"))

    def _passed(self, thread: ThreadId, state: _Thread) -> bool:
        """Whether nothing waits for it: it is closed, or has reached the end of its incarnation."""
        end = self._ends.get(thread.resetlogs)
        return state.closed or (end is not None and state.watermark >= end)
