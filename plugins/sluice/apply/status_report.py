"""Reports an apply's status, samples of each minute, events, and the backlog of the master to Redis."""

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

import psutil
import redis

from sluice.coordination.records import Events, History, LastChanges, QueueState, Status
from sluice.coordination.redis_store import StoreUnreachable
from sluice.counted import counted
from sluice.database.registry import has_rows, master_of
from sluice.database.session import Session
from sluice.model.apply_status import ApplyStatus
from sluice.model.event import Event, EventKind, between
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.safemode import SafeMode
from sluice.model.sample import AppliedWindow, Sampler
from sluice.pair import Pair

# Logs once a minute what an apply has done since.

log = logging.getLogger("sluice.apply")

SUMMARY_SECONDS = 60.0


class SummaryLog:
    """The summary log of one apply, in its thread."""

    def __init__(self, pair: Pair):
        self.pair = pair
        self._begin()

    def applied(self, changes: int, seconds: float) -> None:
        """Notes a window, or a slice."""
        self._windows += 1
        self._changes += changes
        self._busy_seconds += seconds

    def log(self, seen: Position | None, mode: SafeMode) -> None:
        """Logs a line when it is due."""
        now = time.monotonic()
        if now - self._since < SUMMARY_SECONDS:
            return
        seconds = now - self._since
        log.info(
            "%s: %s in %s in %.0f s (%.0f/s), busy %.0f %%, current as of %s, safe mode %s",
            self.pair, counted(self._changes, "change"), counted(self._windows, "window"), seconds,
            self._changes / seconds, 100 * self._busy_seconds / seconds,
            seen.time if seen else "never", mode.explain(now),
        )  # fmt: skip
        self._begin()

    def _begin(self) -> None:
        self._windows = self._changes = 0
        self._busy_seconds = 0.0
        self._since = time.monotonic()


STATUS_SECONDS = 0.5
MOST_UNWRITTEN = 200
"""Events kept while Redis is away."""


class StatusReport:
    """Writes to Redis at most every `STATUS_SECONDS`. A status that cannot be written is dropped; events are kept."""

    def __init__(self, store: redis.Redis, pair: Pair):
        self.pair = pair
        self.status = Status(store, pair.prefix, pair.slave.name)
        self._history = History(store, pair.prefix, pair.slave.name)
        self._queue = QueueState(store, pair.prefix)
        self._events = Events(store, pair.prefix, pair.slave.name)
        self._last_changes = LastChanges(store, pair.prefix, pair.slave.name)
        self._unwritten: deque[Event] = deque(maxlen=MOST_UNWRITTEN)
        self._changed: dict[TableName, float] = {}
        self._last_values: ApplyStatus = {}
        self._process = psutil.Process()
        self._sampler = Sampler()
        self._since = datetime.now(UTC).isoformat(timespec="seconds")
        self._written_at = time.monotonic()
        self._measured = float("-inf")

    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._written_at >= STATUS_SECONDS

    def applied(self, changes: int, seconds: float, tables: Iterable[TableName] = ()) -> None:
        """Notes that a window, or a slice, was applied, with changes of `tables`."""
        now = time.time()
        self._sampler.applied(AppliedWindow(now, changes, seconds))
        self._changed.update(dict.fromkeys(tables, now))

    def event(self, kind: EventKind, text: str) -> None:
        """Notes an event; it is written with the next status."""
        self._unwritten.append(Event(time.time(), kind, text))

    def ended(self, values: ApplyStatus, why: str) -> None:
        """Writes the last events, up to the status `values`, and that the apply ends. The status in Redis stays."""
        self._note_events(values)
        self.event(EventKind.APPLY, why)
        with suppress(StoreUnreachable):
            self._write_events()

    def write(self, values: ApplyStatus, seen: Position | None) -> None:
        """Writes the status: `values` and what this class knows. `seen`: the slave's position."""
        self._written_at = time.monotonic()
        now = time.time()
        over = self._sampler.sample(now, _behind(seen, now))
        windows = [[round(one.at, 3), one.changes, round(one.seconds, 4)] for one in self._sampler.windows(now)]
        more: ApplyStatus = {
            "at": _iso(now), "since": self._since, "rate": self._sampler.rate(now), "windows": windows,
            "host": socket.gethostname(), "pid": os.getpid(), "memory": self._process.memory_info().rss,
        }  # fmt: skip
        self._note_events(values)
        try:
            self.status.write({**values, **more})
            self._write_events()
            if over is not None:
                self._history.add(over)
        except StoreUnreachable:
            return  # if that lasts, the lease raises

    def _note_events(self, values: ApplyStatus) -> None:
        for kind, text in between(self._last_values, values):
            self.event(kind, text)
        self._last_values = values

    def _write_events(self) -> None:
        """Writes events and changed tables. Raises `StoreUnreachable`; the next status tries again."""
        self._events.add(self._unwritten)
        self._unwritten.clear()
        self._last_changes.note(self._changed)
        self._changed = {}

    def measure_queue(self, master: Session) -> None:
        """Measures ITEMS, once a minute and by one apply of the replication. Raises the errors of a session."""
        now = time.monotonic()
        if now - self._measured < QueueState.EVERY_SECONDS / 4 or not has_rows(self.pair.master_info.vendor):
            return
        self._measured = now
        vendor, queue = master_of(self.pair.master_info.vendor), (self.pair.prefix, self.pair.replication.master.schema)

        def version() -> int | None:
            installed = vendor.capture(master, *queue).installed()
            return installed.version if installed else None

        try:
            self._queue.measure(lambda: vendor.queue(master, *queue).backlog(), version)
        except StoreUnreachable:
            return


def _behind(seen: Position | None, now: float) -> float | None:
    """Seconds from the slave's position to now."""
    try:
        as_of = datetime.fromisoformat(seen.time) if seen else None
    except ValueError:  # a recorded stream may have no times
        return None
    if as_of is None:
        return None
    as_of = as_of if as_of.tzinfo else as_of.replace(tzinfo=UTC)
    return max(0.0, now - as_of.timestamp())


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
