"""Sessions on master and slave that see both at one position, while both go on.

The apply is asked to end a window at a position, and to export what master and slave show there (see
`sluice.apply.request_handler`). The sessions here take both snapshots over, and say so: then the apply ends its own.
Nothing is paused at any time, and whatever dies takes its snapshots with it.
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
from sluice.database import positions
from sluice.database.errors import DatabaseError, DatatypeMismatch, LockNotAvailable, UndefinedObject
from sluice.database.placed import vendor_at
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.database.vendor import Vendor
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
"""Seconds between two looks for sessions that wait for our locks; one that is seen twice ends the comparison."""
SILENT_SECONDS = 30.0
"""A server that says nothing for so long is given up."""
IDLE_SECONDS, PING_SECONDS = 600.0, 60.0
"""The server ends a transaction that does nothing for so long: its holder is frozen. One that is not
sends a ping more often.
"""
PASSING = (UndefinedObject, DatatypeMismatch, LockNotAvailable)
"""The table, a column or the snapshot is not what it was a moment ago, or is locked just now."""

T = TypeVar("T")


class PinnedView:
    """Master and slave as they were at `position`."""

    position: Position
    paused: float = 0.0
    """Seconds that the apply gave to it."""
    seen: Position | None = None
    """Where the apply does not run: the later position at which the master is seen, see `offline_compare`."""

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

    def take_over(self, found: Snapshots) -> None:
        """What the apply exported. Raises `CouldNotCompare`."""
        for side, snapshot in ((self.master, found.master), (self.slave, found.slave)):
            for session in side.sessions:
                try:
                    side.vendor.rows.begin_snapshot(session, snapshot)
                except DatabaseError as error:
                    known = self.failure(side, error)
                    raise CouldNotCompare(
                        f"The apply's snapshot could not be taken over: {known}", again=True
                    ) from error
        self.position, self.paused = positions.parse(found.position), found.seconds

    def compare_offline(self, store: "Redis") -> None:
        """The slave as it is, where nobody applies. Raises `CouldNotCompare`."""
        try:
            found = offline_compare.begin(self.pair, self.master, self.slave)
        except DatabaseError as error:
            known = self.failure(self.slave, error)
            raise CouldNotCompare(str(known), again=self._ended is None) from error
        if found is None:
            raise CouldNotCompare(f"{self.pair}: the apply does not run: {why_silent(self.pair, store)}")
        self.position, self.seen = found

    def run(self, side: Side, task: Callable[[Session], T]) -> "Future[T]":
        """Runs `task` with a free session of `side`. Its future raises `CouldNotCompare`."""
        return self._pool.submit(self._run, side, task)

    def expect_wanted(self) -> None:
        """Raises why the comparison was ended, if it was."""
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
            return self.ask(side, task, session)
        finally:
            side.free.put(session)

    def ask(self, side: Side, task: Callable[[Session], T], session: Session) -> T:
        """Runs `task` with this session of `side`. Raises `CouldNotCompare`."""
        try:
            return task(session)
        except DatabaseError as error:
            raise self.failure(side, error) from error

    def failure(self, side: Side, error: Exception) -> CouldNotCompare:
        """What an error in one of the sessions means for the comparison."""
        if self._ended is not None:
            return self._ended
        return CouldNotCompare(str(error), again=isinstance(error, PASSING))

    def _watch(self) -> None:
        """A session that alters or empties a table, the apply above all, must not wait for a comparison; and the
        comparison must not wait for a frozen server.
        """
        met = [0, 0]
        pings: list[Future[None]] = []
        ping_at = time.monotonic() + PING_SECONDS
        while not self._over.wait(WATCH_SECONDS):
            for place, side in enumerate((self.master, self.slave)):
                try:
                    met[place] = met[place] + 1 if self._waiters(side) else 0
                except SluiceError as error:
                    log.debug("not watched: %s", error)
                    self._ended = self.failure(side, error)
                    self._each(lambda side, session: side.vendor.sessions.cut(session))
                    return
                if met[place] > 1 and self._ended is None:
                    self._ended = CouldNotCompare(
                        f"{side.info.place}: the comparison ended for a change of a table's definition, or a "
                        "TRUNCATE, that waited for it.",
                        again=True,
                    )
                    self._interrupt()
            if time.monotonic() > ping_at and all(ping.done() for ping in pings):
                pings = [self._pool.submit(self._ping, side) for side in (self.master, self.slave)]
                ping_at = time.monotonic() + PING_SECONDS

    def _waiters(self, side: Side) -> int:
        """How many wait for a lock of ours. Raises `Silent`."""
        sessions = side.vendor.sessions
        return sessions.waiters(side.control, side.sessions, side.info.place, SILENT_SECONDS)

    def _ping(self, side: Side) -> None:
        """The server ends what is idle for long, because nobody may be left who wants it."""
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
    """`sessions` on each side at one position: one that the apply exports, or where the slave stands without it.

    Raises `CouldNotCompare`, and `SluiceError`s of connecting and of asking.
    """
    with ExitStack() as stack:
        # Before the apply is asked: what it exports is then taken over at once.
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


def places(pair: Pair) -> tuple[tuple[ConnectionInfo, Vendor], tuple[ConnectionInfo, Vendor]]:
    """Where the master's rows are, and where the slave's."""
    rows = pair.place_of_rows()
    return (rows, vendor_of(rows.vendor)), (pair.slave_info, vendor_at(pair))


def sides(stack: ExitStack, pair: Pair, sessions: int) -> tuple[Side, Side]:
    """Master and slave with so many sessions each, which `stack` closes. Raises errors of connecting."""
    master, slave = (_side(stack, pair, info, vendor, sessions) for info, vendor in places(pair))
    return master, slave


def _side(stack: ExitStack, pair: Pair, info: ConnectionInfo, vendor: Vendor, sessions: int) -> Side:
    made = [reading(stack, pair, info, vendor) for _ in range(sessions)]
    return Side(info, vendor, made, _connected(stack, pair, info, vendor))


def reading(stack: ExitStack, pair: Pair, info: ConnectionInfo, vendor: Vendor) -> Session:
    """A session to read with: its server ends it soon after this process has died or frozen."""
    session = _connected(stack, pair, info, vendor)
    vendor.sessions.begin_reading(session, info.place, IDLE_SECONDS)
    return session


def _connected(stack: ExitStack, pair: Pair, info: ConnectionInfo, vendor: Vendor) -> Session:
    session = vendor.sessions.connect(info, application=f"{pair.application} verify", autocommit=True)
    stack.callback(session.close)
    return session


def gathered(futures: "Sequence[Future[T]]") -> list[T]:
    """The results in order; the first failure is raised once all have ended."""
    for future in futures:
        future.exception()
    return [future.result() for future in futures]
