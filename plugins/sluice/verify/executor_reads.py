"""Large tables are read by several of Spark's executors, which see both sides as the comparison sees them.

They take over the snapshots that its sessions hold. A job's tasks are one session a side each, as many as
`verify.parallel` says; after some seconds the next job continues there, and its name says how far the comparison is.
What differs comes back, and no other row: to the task of Spark in which the comparison runs.
"""

import logging
import time
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from sluice.database.digests import Part
from sluice.database.session import Session
from sluice.errors import SluiceError
from sluice.executor import Executor, ExecutorsFailed, run_with_heartbeat
from sluice.model.names import TableName
from sluice.model.requests import Snapshots
from sluice.model.vendors import VENDORS
from sluice.pair import Pair
from sluice.verify.compare import CompareOptions, compare, rows_about
from sluice.verify.findings import CouldNotCompare, Row, TableFinding
from sluice.verify.pinned_sessions import PASSING, PinnedView, places, reading
from sluice.verify.table_reads import (
    Ask,
    BlockSums,
    Digests,
    InThisProcess,
    ReadRows,
    Sums,
    Unequal,
    sums,
    unequal_rows,
)

log = logging.getLogger("sluice.verify")

TURN_SECONDS = 15.0
"""For how many seconds a task takes one item after another; it completes the current one."""
TURN_LIMIT_SECONDS = 3_600.0
"""A job without an end for so long is given up."""

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")
Sessions = Callable[[int], Session]
"""The sessions of the master, 0, and of the slave, 1."""


def compare_where_it_pays(view: PinnedView, table: TableName, options: CompareOptions) -> TableFinding:
    """See `compare`: by executors if the table has more rows than `spark_above`, and they can see what it sees.

    A sample is drawn by this process, which also reads a transformed table. Raises `CouldNotCompare`.
    """
    shared = all(VENDORS[side.info.vendor].shared_snapshots for side in (view.master, view.slave))
    whole = view.pair.transformation(table) is not None and view.seen is None
    actions, executors = options.actions, options.executors
    if executors is None or options.sample or whole or not shared:
        return compare(view, table, actions, options.sample)
    if rows_about(view, table) <= view.pair.replication.verify.spark_above:
        return compare(view, table, actions)
    return compare(view, table, actions, reads=ByExecutors(view, table, executors()))


class ByExecutors:
    """`TableReads` by Spark's executors; by this process if they fail."""

    def __init__(self, view: PinnedView, table: TableName, executor: Executor):
        self._view = view
        self._table = table
        self._executor = executor
        self._here = InThisProcess(view, (view.master, view.slave))
        master, slave = (side.vendor.rows.export_snapshot(side.first) for side in (view.master, view.slave))
        self._snapshots = Snapshots(master, slave, view.position.text())

    def blocks(self, digests: Digests, parts: Sequence[Sequence[Part]]) -> tuple[Sums, Sums]:
        """See `TableReads`."""
        parallel = self._view.pair.replication.verify.parallel
        queues = [
            [(index, part) for part in of_side[start::parallel]]
            for index, of_side in enumerate(parts)
            for start in range(parallel)
        ]
        by_side: list[list[BlockSums]] = [[], []]
        try:
            for results in self._in_turns(partial(_digested, digests), queues, "verify"):
                for (side, _), digested in results:
                    by_side[side].append(digested)
        except ExecutorsFailed as failure:
            self._tell(failure)
            return self._here.blocks(digests, parts)
        master, slave = map(sums, by_side)
        return master, slave

    def unequal(self, digests: Digests, groups: Sequence[Sequence[int]], without: Collection[Row]) -> Iterator[Unequal]:
        """See `TableReads`."""
        parallel = self._view.pair.replication.verify.parallel
        left = list(groups)
        try:
            work = partial(_unequal, digests, frozenset(without))
            for results in self._in_turns(work, [left[start::parallel] for start in range(parallel)], "differences of"):
                for blocks, of_part in results:
                    yield of_part
                    left.remove(blocks)
        except ExecutorsFailed as failure:
            self._tell(failure)
            yield from self._here.unequal(digests, left, without)

    def _in_turns(
        self, work: Callable[[Sessions, Item], Result], queues: Sequence[Sequence[Item]], verb: str
    ) -> Iterator[list[tuple[Item, Result]]]:
        """The results of `work` for all items, with a queue for each task, job after job. Raises `ExecutorsFailed`,
        `CouldNotCompare`.

        `verb`: the beginning of the jobs' names.
        """
        left = [list(queue) for queue in queues if queue]
        total, ended = sum(map(len, left)), 0
        while left:
            turn = _Turn(self._view.pair, self._snapshots, work, left)
            done = self._map(turn, len(left), f"{verb} {self._table} {ended + 1}/{total}", TURN_LIMIT_SECONDS)
            yield [
                pair for queue, each in zip(left, done, strict=True) for pair in zip(queue, each.results, strict=False)
            ]
            for each in done:
                self._check(each)
                ended += len(each.results)
            log.info("%s: %s %s: %d of %d parts done by Spark", self._view.pair, verb, self._table, ended, total)
            rest = (queue[len(each.results) :] for queue, each in zip(left, done, strict=True))
            left = [queue for queue in rest if queue]

    def _map(self, task: Callable[[int], T], tasks: int, what: str, limit: float) -> list[T]:
        """Raises `ExecutorsFailed`, and what ended the comparison."""
        over = False
        try:
            results = run_with_heartbeat(lambda: self._executor.map(task, tasks, what), self._view.expect_wanted, limit)
            over = True
            return results
        finally:
            if not over:
                self._executor.cancel()

    def _check(self, done: "_Done[T]") -> None:
        self._view.expect_wanted()
        if done.failure:
            raise CouldNotCompare(done.failure, again=done.again)

    def _tell(self, failure: ExecutorsFailed) -> None:
        log.warning("%s: %s This process reads %s itself.", self._view.pair, failure, self._table)


@dataclass(frozen=True)
class _Done(Generic[T]):
    """What a task did, and why it did not do more. Errors come back as text: not all of them can be pickled."""

    results: list[T]
    failure: str = ""
    again: bool = False

    @classmethod
    def failed(cls, results: list[T], error: SluiceError) -> "_Done[T]":
        again = isinstance(error, PASSING) or (isinstance(error, CouldNotCompare) and error.again)
        return cls(results, str(error), again)


@dataclass(frozen=True)
class _Turn(Generic[Item, Result]):
    """The function that an executor runs for its queue of items. Passwords are sent with it."""

    pair: Pair
    snapshots: Snapshots
    work: Callable[[Sessions, Item], Result]
    queues: Sequence[Sequence[Item]]

    def __call__(self, number: int) -> "_Done[Result]":
        end = time.monotonic() + TURN_SECONDS
        results: list[Result] = []
        try:
            with _sessions(self.pair, self.snapshots) as sessions:
                for item in self.queues[number]:
                    results.append(self.work(sessions, item))
                    if time.monotonic() > end:
                        break
        except SluiceError as error:
            return _Done.failed(results, error)
        return _Done(results)


@contextmanager
def _sessions(pair: Pair, snapshots: Snapshots) -> Iterator[Sessions]:
    """Sessions that see what the comparison sees, each opened when it is first needed."""
    opened: dict[int, Session] = {}
    with ExitStack() as stack:

        def session(side: int) -> Session:
            if side not in opened:
                info, vendor = places(pair)[side]
                opened[side] = reading(stack, pair, info, vendor)
                vendor.rows.begin_snapshot(opened[side], (snapshots.master, snapshots.slave)[side])
            return opened[side]

        yield session


def _digested(digests: Digests, sessions: Sessions, item: tuple[int, Part]) -> BlockSums:
    side, part = item
    return digests[side].of_blocks(sessions(side), part)


def _unequal(digests: Digests, without: Container[Row], sessions: Sessions, blocks: Sequence[int]) -> Unequal:
    def both(master: Ask, slave: Ask) -> tuple[ReadRows, ReadRows]:
        with ThreadPoolExecutor(1) as pool:
            of_slave = pool.submit(slave, sessions(1))
            return master(sessions(0)), of_slave.result()

    return unequal_rows(digests, blocks, without, both)
