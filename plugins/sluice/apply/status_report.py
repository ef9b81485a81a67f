"""What an apply says of itself: its status, the samples of each minute, and how much waits on the master."""

import time
from datetime import UTC, datetime
from typing import Any

import redis

from sluice.coordination.history import History
from sluice.coordination.queue_state import EVERY_SECONDS, QueueState
from sluice.coordination.redis_store import StoreUnreachable
from sluice.coordination.status import Status
from sluice.database.registry import has_rows, vendor_of
from sluice.database.session import Session
from sluice.model.position import Position
from sluice.model.sample import AppliedWindow, Sampler
from sluice.pair import Pair

STATUS_SECONDS = 0.5


class StatusReport:
    """Written to Redis at most every `STATUS_SECONDS`. What cannot be written is not missed."""

    def __init__(self, store: redis.Redis, pair: Pair):
        self.pair = pair
        self.status = Status(store, pair.prefix, pair.slave.name)
        self._history = History(store, pair.prefix, pair.slave.name)
        self._queue = QueueState(store, pair.prefix)
        self._sampler = Sampler()
        self._since = datetime.now(UTC).isoformat(timespec="seconds")
        self._said = time.monotonic()
        self._measured = float("-inf")

    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._said >= STATUS_SECONDS

    def applied(self, changes: int, seconds: float) -> None:
        """A window, or a slice, was applied."""
        self._sampler.applied(AppliedWindow(time.time(), changes, seconds))

    def write(self, values: dict[str, Any], seen: Position | None) -> None:
        """`values` with what is known here besides. `seen`: what the slave has."""
        self._said = time.monotonic()
        now = time.time()
        over = self._sampler.look(now, _behind(seen, now))
        windows = [[round(one.at, 3), one.changes, round(one.seconds, 4)] for one in self._sampler.windows(now)]
        more = {"at": _iso(now), "since": self._since, "rate": self._sampler.rate(now), "windows": windows}
        try:
            self.status.write({**values, **more})
            if over is not None:
                self._history.append(over)
        except StoreUnreachable:
            return  # the lease speaks up when this lasts

    def measure_queue(self, master: Session) -> None:
        """Measures ITEMS, once a minute and by one apply of the replication. Raises what a statement raises."""
        now = time.monotonic()
        if now - self._measured < EVERY_SECONDS / 4 or not has_rows(self.pair.master_info.vendor):
            return
        self._measured = now
        changes, schema = vendor_of(self.pair.master_info.vendor).changes, self.pair.replication.master.schema
        try:
            self._queue.measure(lambda: changes.backlog(master, self.pair.prefix, schema))
        except StoreUnreachable:
            return


def _behind(seen: Position | None, now: float) -> float | None:
    """Seconds between what the slave has and now."""
    try:
        as_of = datetime.fromisoformat(seen.time) if seen else None
    except ValueError:  # a recorded stream need not tell it
        return None
    if as_of is None:
        return None
    as_of = as_of if as_of.tzinfo else as_of.replace(tzinfo=UTC)
    return max(0.0, now - as_of.timestamp())


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
