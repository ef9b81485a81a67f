"""Sessions on master and slave that see both at one position, while both are in use.

The apply ends a window at a position on request, and exports snapshots of master and slave there (see
`sluice.apply.request_handler`). The sessions here import both and confirm that; then the apply ends its own. Nothing
waits for a comparison, and a snapshot ends with its process.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from queue import Empty
from typing import TypeVar

from redis import Redis

from sluice.coordination import lease
from sluice.database import registry
from sluice.database.errors import DatabaseError, DatatypeMismatch, LockNotAvailable, UndefinedObject
from sluice.database.placed import vendor_at
from sluice.database.registry import master_of
from sluice.database.session import Session
from sluice.database.vendor import Target
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.model.position import Position
from sluice.model.requests import Refused, Snapshots, SnapshotsRequest
from sluice.pair import Pair
from sluice.verify import offline_compare
from sluice.verify.apply_client import ask_apply, why_silent
from sluice.verify.findings import CouldNotCompare
from sluice.verify.pinned_side import Side

log = logging.getLogger("sluice.verify")

WATCH_SECONDS = 0.5
"""Seconds between two checks for sessions that wait for our locks. Waiting at two checks ends the comparison."""
SILENT_SECONDS = 30.0
"""After so long without an answer a server is given up."""
IDLE_SECONDS, PING_SECONDS = 600.0, 60.0
"""After so long without a statement the server ends a transaction, whose process is probably frozen; pings prevent it.
"""
LOCK_SECONDS = 3.0
"""How long a statement waits for one table. Behind an ALTER that waits everybody waits, also who reads a definition."""
PASSING = (UndefinedObject, DatatypeMismatch, LockNotAvailable)
"""Errors that pass: the table, a column or the snapshot has just changed, or is locked."""

T = TypeVar("T")


class PinnedView:
    """Master and slave as they were at `position`."""

    position: Position
    paused: float = 0.0
    """Seconds of the apply's time."""
    seen: Position | None = None
    """If it is another: the master's position, which is later; see `offline_compare`."""

    def __init__(self, pair: Pair, master: Side, slave: Side):
        self.pair = pair
        self.master = master
        self.slave = slave
        self._pool = ThreadPoolExecutor(len(master.sessions) + len(slave.sessions))
        self._ended: CouldNotCompare | None = None
        self._over = threading.Event()
        for side in (master, slave):
            for session in side.sessions:
                side.free.put(session)
        self._watcher = threading.Thread(target=self._watch, name="verify-watch", daemon=True)
        self._watcher.start()

    def take_over(self, snapshots: Snapshots) -> None:
        """Imports the snapshots of the apply. Raises `CouldNotCompare`."""
        for side, snapshot in ((self.master, snapshots.master), (self.slave, snapshots.slave)):
            for session in side.sessions:
                try:
                    side.vendor.rows.begin_snapshot(session, snapshot)
                except DatabaseError as error:
                    failure = self.failure(error)
                    raise CouldNotCompare(
                        f"The apply's snapshot could not be taken over: {failure}", again=True
                    ) from error
        self.position, self.paused = registry.parse_position(snapshots.position), snapshots.seconds

    def compare_offline(self, store: "Redis") -> None:
        """Pins the slave as it is, without the apply. Raises `CouldNotCompare`."""
        try:
            begun = offline_compare.begin(self.pair, self.master, self.slave)
        except DatabaseError as error:
            failure = self.failure(error)
            raise CouldNotCompare(str(failure), again=self._ended is None) from error
        if begun is None:
            raise CouldNotCompare(f"{self.pair}: the apply does not run: {why_silent(self.pair, store)}")
        self.position, self.seen = begun

    def run(self, side: Side, task: Callable[[Session], T]) -> "Future[T]":
        """Runs `task` with a free session of `side`. Its future raises `CouldNotCompare`."""
        return self._pool.submit(self._run, side, task)

    def expect_wanted(self) -> None:
        """Raises the reason if the comparison was ended."""
        if self._ended is not None:
            raise self._ended

    def close(self) -> None:
        """Ends what runs."""
        self._over.set()
        self._watcher.join()
        self._interrupt()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, side: Side, task: Callable[[Session], T]) -> T:
        session = side.free.get()
        try:
            return self.ask(task, session)
        finally:
            side.free.put(session)

    def ask(self, task: Callable[[Session], T], session: Session) -> T:
        """Runs `task` with this session. Raises `CouldNotCompare`."""
        try:
            return task(session)
        except DatabaseError as error:
            raise self.failure(error) from error

    def failure(self, error: Exception) -> CouldNotCompare:
        """The failure of the comparison after an error in one of the sessions."""
        if self._ended is not None:
            return self._ended
        return CouldNotCompare(str(error), again=isinstance(error, PASSING))

    def _watch(self) -> None:
        """Ends the comparison if a session waits for its locks, or a server does not answer; sends pings.

        The apply above all must not wait for a comparison when it alters or empties a table.
        """
        waiting = [0, 0]
        pings: list[Future[None]] = []
        ping_at = time.monotonic() + PING_SECONDS
        while not self._over.wait(WATCH_SECONDS):
            for index, side in enumerate((self.master, self.slave)):
                try:
                    waiting[index] = waiting[index] + 1 if self._waiters(side) else 0
                except SluiceError as error:
                    log.debug("not watched: %s", error)
                    self._ended = self.failure(error)
                    self._each(lambda side, session: side.vendor.sessions.cut(session))
                    return
                if waiting[index] > 1 and self._ended is None:
                    self._ended = CouldNotCompare(
                        f"{side.info.server}: the comparison ended for a change of a table's definition, or a "
                        "TRUNCATE, that waited for it.",
                        again=True,
                    )
                    self._interrupt()
            if time.monotonic() > ping_at and all(ping.done() for ping in pings):
                pings = [self._pool.submit(self._ping, side) for side in (self.master, self.slave)]
                ping_at = time.monotonic() + PING_SECONDS

    def _waiters(self, side: Side) -> int:
        """How many sessions wait for our locks. Raises `Silent`."""
        sessions = side.vendor.sessions
        return sessions.waiters(side.control, side.sessions, side.info.server, SILENT_SECONDS)

    def _ping(self, side: Side) -> None:
        """Sends a statement in each free session, so that the server does not end it as idle."""
        with suppress(Empty):
            for _ in side.sessions:
                session = side.free.get_nowait()
                try:
                    with suppress(DatabaseError):
                        session.ping()
                finally:
                    side.free.put(session)

    def _interrupt(self) -> None:
        """Cancels what runs."""
        self._each(lambda side, session: side.vendor.sessions.interrupt(session))

    def _each(self, act: Callable[[Side, Session], None]) -> None:
        for side in (self.master, self.slave):
            for session in side.sessions:
                act(side, session)


@contextmanager
def at_one_position(pair: Pair, store: "Redis", *, sessions: int = 1) -> Iterator[PinnedView]:
    """`sessions` on each side at one position: that of the apply's snapshots, or the slave's if no apply runs, and
    beside a log that tells the master's former rows.

    Raises `CouldNotCompare`, and `SluiceError`s of connecting and of the request.
    """
    with ExitStack() as stack:
        if pair.beside_whole_log:
            view = PinnedView(pair, *sides(stack, pair, 1))
            stack.callback(view.close)
            view.compare_offline(store)
            yield view
            return
        # Connect before the request, so that the snapshots are imported at once.
        master, slave = sides(stack, pair, sessions)
        view = PinnedView(pair, master, slave)
        stack.callback(view.close)
        if lease.holder(store, lease.key(pair.prefix, pair.slave.name)) is None:
            view.compare_offline(store)
            yield view
            return
        with ask_apply(pair, store, SnapshotsRequest(), Snapshots.read) as answer:
            if isinstance(answer, Refused):
                raise CouldNotCompare(f"{pair}: the apply refused: {answer.reason}", again=True)
            view.take_over(answer)
        yield view


def places(pair: Pair) -> tuple[tuple[ConnectionInfo, Target], tuple[ConnectionInfo, Target]]:
    """The connection and vendor of the master's rows, and of the slave's."""
    rows = pair.place_of_rows()
    return (rows, master_of(rows.vendor)), (pair.slave_info, vendor_at(pair))


def sides(stack: ExitStack, pair: Pair, sessions: int) -> tuple[Side, Side]:
    """Master and slave with so many sessions each, which `stack` closes. Raises errors of connecting."""
    master, slave = (_side(stack, pair, info, vendor, sessions) for info, vendor in places(pair))
    return master, slave


def _side(stack: ExitStack, pair: Pair, info: ConnectionInfo, vendor: Target, sessions: int) -> Side:
    opened = [reading(stack, pair, info, vendor) for _ in range(sessions)]
    return Side(info, vendor, opened, _connected(stack, pair, info, vendor))


def reading(stack: ExitStack, pair: Pair, info: ConnectionInfo, vendor: Target) -> Session:
    """A session for reading, which the server ends soon after this process died or froze."""
    session = _connected(stack, pair, info, vendor)
    vendor.sessions.begin_reading(session, info.server, IDLE_SECONDS)
    session.limit_lock_waits(LOCK_SECONDS)
    return session


def _connected(stack: ExitStack, pair: Pair, info: ConnectionInfo, vendor: Target) -> Session:
    session = vendor.sessions.connect(info, application=f"{pair.application} verify", autocommit=True)
    stack.callback(session.close)
    return session


def gathered(futures: "Sequence[Future[T]]") -> list[T]:
    """The results in order, when all have ended. Raises the first failure."""
    for future in futures:
        future.exception()
    return [future.result() for future in futures]
