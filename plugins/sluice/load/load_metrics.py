"""Measures for the throttle: the master's sessions, locks and standbys, a configured query, the lag of the apply."""

import logging
import time
from datetime import datetime

from sluice.configuration.options import ThrottleOptions
from sluice.coordination import redis_store
from sluice.coordination.redis_checkpoint import StoredCheckpoint
from sluice.database.errors import DatabaseError
from sluice.database.load import NoNumber
from sluice.database.registry import master_of
from sluice.database.session import Session, SessionOptions
from sluice.errors import Terminal
from sluice.load.load_ownership import owner_of
from sluice.load.throttle_rules import Reading, Readings, StandbyLag, exceeded
from sluice.load.update import Update

log = logging.getLogger("sluice.load")

MEASURING = SessionOptions(statement_seconds=5, lock_seconds=1, read_only=True)
"""The session on the master: measuring must not be a burden itself."""


def throttle_unusable(update: Update, reasons: list[str]) -> Terminal:
    """A limit of the configuration cannot be measured; `reasons`: one sentence each."""
    listed = "\n".join(f"- {reason}" for reason in reasons)
    return Terminal(f"{update}: limits of initial.throttle cannot be measured:\n{listed}", code="throttle-unusable")


def require_measurable(update: Update) -> None:
    """Measures once all that the configuration limits. Raises `throttle-unusable`, and `Transient` for outages."""
    limits = update.options.throttle
    with LoadMetrics(update) as metrics:
        readings = metrics.read(limits)
    values = (readings.active_sessions, readings.lock_waits, readings.replica_lag, readings.query)
    unknown = Readings(*(value if isinstance(value, str) else None for value in values))
    if reasons := exceeded(
        ThrottleOptions(**{**vars(limits), "pause": False}), unknown, str(update.replication.source)
    ):
        raise throttle_unusable(update, reasons)


class LoadMetrics:
    """Measures, over separate sessions. `reads_master`, `stores`: what the job's workers do.

    `redis_url`: of the position of a slave with `checkpoint: redis`, whose row on the slave is much older.
    """

    def __init__(self, update: Update, *, reads_master: bool = True, stores: bool = True, redis_url: str | None = None):
        self.update = update
        self.reads_master = reads_master
        self.stores = stores
        self._stored: StoredCheckpoint | None = None
        if redis_url is not None and update.slave.checkpoint == "redis":
            self._stored = StoredCheckpoint(redis_store.connect(redis_url), update.prefix, update.slave.name)
        self._master: Session | None = None
        self._slave: Session | None = None
        self._standbys = StandbyLag()

    def __enter__(self) -> "LoadMetrics":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the sessions; never raises."""
        for session in (self._master, self._slave):
            if session is not None:
                session.close()
        self._master = self._slave = None

    def read(self, limits: ThrottleOptions) -> Readings:
        """Measures what has a limit. Where workers read the master, it is asked in any case, to notice an outage.

        Raises `Transient`, and `Terminal` if a database refuses.
        """
        of_master = (limits.active_sessions, limits.lock_waits, limits.replica_lag, limits.query)
        limited = self.reads_master and any(limit is not None for limit in of_master)
        lag_limited = self.stores and limits.apply_lag is not None
        if not (self.reads_master or lag_limited):
            return Readings()
        update = self.update
        meter = master_of(update.master_info.vendor).server_load
        if self._master is None:
            self._master = update.connect_master(options=MEASURING)
        if not (limited or lag_limited):
            self._master.ping()
            return Readings()
        server = meter.read(self._master)
        query = None if limits.query is None or not limited else self._query(limits.query)
        lag = self._apply_lag(server.clock) if lag_limited else None
        if not limited:
            return Readings(apply_lag=lag)
        unseen = None if server.sees_others else meter.GRANT
        standbys = max(self._standbys.measure(time.monotonic(), server.wal, server.replayed), server.replay_lag)
        return Readings(unseen or server.active_sessions, server.lock_waits, unseen or standbys, query, lag)

    def _query(self, query: str) -> Reading:
        assert self._master is not None
        try:
            return master_of(self.update.master_info.vendor).server_load.number(self._master, query)
        except NoNumber as problem:
            return str(problem)
        except DatabaseError as error:
            if self._master.broken:
                raise
            return f"it fails: {error.reason or error}"

    def _apply_lag(self, now: datetime) -> Reading:
        update = self.update
        if self._slave is None:
            self._slave = update.connect_slave()
        owner = owner_of(update, self._slave)
        if owner is None or owner.current_as_of is None:
            return 0.0
        newest = owner.current_as_of
        if self._stored is not None and (stored := self._stored.read()) is not None and stored.position.time:
            newest = max(newest, datetime.fromisoformat(stored.position.time))
        return max(float((now - newest).total_seconds()), 0.0)
