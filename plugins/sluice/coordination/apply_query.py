"""The apply of a slave as a streaming query of Spark: what Redis has about it.

Whoever finds the record can watch the query, ask Spark about it, and stop it: another triggerer, another Airflow, a
command. One hash holds it, each field with one writer: `record` the task of Airflow that started the query, `begun` and
`end` the query's own task on an executor, `lost` who finds that it is gone, `stop` who wants it to end. Fields name the
query that they are about, so that what an earlier one left means nothing. The query's log is a stream beside it. If
the apply runs as a process instead, `why_process` says why.
"""

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

import redis

from sluice.coordination import lease
from sluice.coordination.lease import Holder
from sluice.coordination.records import Status
from sluice.coordination.redis_store import StoreUnreachable
from sluice.errors import Transient
from sluice.model.apply_status import ApplyStatus, StopRequest
from sluice.model.names import Prefix

LINES_KEPT = 5_000
"""Lines of the log in Redis."""
LINES_READ = 500
"""Lines that one call of `log_lines` returns at most."""
LONG_SECONDS = 86_400.0
"""Sessions that Spark keeps for so long outlive outages of Airflow."""
START_SECONDS = 180.0
"""How long one may take to look for a query and to start one."""
WATCH_SECONDS = 15.0
"""An Airflow that has not looked at the query for so long does not watch it any more."""

T = TypeVar("T")


@dataclass(frozen=True)
class QueryRecord:
    """A query that was started, or is being started. It holds no secret."""

    id: str
    """Of the job."""
    owner: Mapping[str, Any]
    """The task of Airflow that watches it, see `sluice.airflow.job.Owner`."""
    launched: float
    """Seconds since the epoch."""
    session: str
    """The id of the session of Spark Connect."""
    place: str
    """The endpoint, without secrets."""
    query: str = ""
    """Spark's id of the query; empty until it was started."""
    run: str = ""
    """Spark's id of its run."""
    attempt: int = 0
    config: str = ""
    """The digest of the configuration's files with which it was started."""
    session_seconds: float | None = None
    """How long Spark keeps the session, and with it the query, while nobody asks; None if unknown."""

    @property
    def short_session(self) -> float | None:
        """The seconds, if the query ends when Airflow is away for less than a day."""
        return None if self.session_seconds is None or self.session_seconds >= LONG_SECONDS else self.session_seconds

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "QueryRecord":
        """From stored values; what a later release adds is ignored."""
        return _of(cls, values)


@dataclass(frozen=True)
class Begun:
    """The process in which the query's task runs."""

    host: str
    pid: int


@dataclass(frozen=True)
class QueryEnd:
    """How a query ended, written by its task."""

    rc: int
    """See `sluice.exit_status`."""
    message: str
    at: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class QueryState:
    """What Redis has at one moment."""

    record: QueryRecord | None = None
    begun: Begun | None = None
    """Where its task runs, or ran last; None before it got a slot."""
    end: QueryEnd | None = None
    lost: float | None = None
    """When it was found to be gone, in seconds since the epoch."""
    stop: StopRequest | None = None
    holder: Holder | None = None
    """Of the lease."""
    status: ApplyStatus = field(default_factory=ApplyStatus)
    why_process: str = ""
    """Why the apply runs as a process of Airflow's machine; empty if it does not."""
    watched_by: str = ""
    """The machine of the triggerer that watches the query now; empty if none does."""
    standby: str = ""
    """The machine of another Airflow's triggerer that waits to take over; empty if none does."""

    @property
    def runs(self) -> bool:
        """Whether Redis does not know that it has ended."""
        return self.record is not None and self.end is None and self.lost is None


class ApplyQuery:
    """The query of one slave. Every method raises `StoreUnreachable`, unless it says otherwise."""

    def __init__(self, client: "redis.Redis", prefix: Prefix | str, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:query"
        self._log = f"{self.key}:log"
        self._read = f"{self.key}:log:read"
        self._watched, self._standby = f"{self.key}:watched", f"{self.key}:standby"
        self._status = Status(client, Prefix(str(prefix)), slave).key
        self._lease = lease.key(Prefix(str(prefix)), slave)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Only one at a time looks for a query and starts one. Raises `apply-start-held`."""
        lock = self.client.lock(f"{self.key}:starting", timeout=START_SECONDS, blocking_timeout=START_SECONDS)
        if not lock.acquire():
            raise Transient(
                f"Another task has been starting the apply for {START_SECONDS:.0f} s ({self.key}:starting in "
                "Redis). It is tried again.",
                code="apply-start-held",
            )
        try:
            yield
        finally:
            with suppress(redis.RedisError, StoreUnreachable):  # it expires
                lock.release()

    def state(self) -> QueryState:
        """Everything, in one round trip."""
        with self.client.pipeline(transaction=False) as pipe:
            pipe.hgetall(self.key)
            pipe.get(self._lease)
            pipe.get(self._status)
            pipe.mget(self._watched, self._standby)
            noted, held, written, (watched_by, standby) = pipe.execute()
        record = QueryRecord.of(json.loads(noted["record"])) if "record" in noted else None

        def of_this(name: str) -> dict[str, Any] | None:
            values = json.loads(noted.get(name, "null"))
            if values is None or record is None or values.pop("id") != record.id:
                return None
            return dict(values)

        end, stop, lost, begun = of_this("end"), of_this("stop"), of_this("lost"), of_this("begun")
        return QueryState(
            record,
            _of(Begun, begun) if begun else None,
            _of(QueryEnd, end) if end else None,
            float(lost["at"]) if lost else None,
            _of(StopRequest, stop) if stop else None,
            lease.parsed(held),
            Status.parsed(written),
            str(noted.get("why_process", "")),
            str(watched_by or ""),
            str(standby or ""),
        )

    def write(self, record: QueryRecord) -> None:
        """Replaces the record; what is there of another query goes with it."""
        before = self.client.hget(self.key, "record")
        with self.client.pipeline() as pipe:
            if before is None or json.loads(str(before))["id"] != record.id:
                pipe.delete(self.key)
            pipe.hset(self.key, "record", json.dumps(asdict(record)))
            pipe.hdel(self.key, "why_process")
            pipe.execute()

    def note_process(self, why: str) -> None:
        """Notes that the apply runs as a process, and why."""
        self.client.hset(self.key, "why_process", why)

    def owned_by(self, record: QueryRecord, owner: Mapping[str, Any]) -> QueryRecord:
        """The record with another task that watches the query; written."""
        changed = replace(record, owner=owner)
        self.write(changed)
        return changed

    def watch(self) -> None:
        """Tells for `WATCH_SECONDS` that this machine watches the query."""
        self._tell(self._watched)

    def stand_by(self) -> None:
        """Tells for `WATCH_SECONDS` that this machine waits to take over."""
        self._tell(self._standby)

    def _tell(self, key: str) -> None:
        self.client.set(key, socket.gethostname(), px=int(WATCH_SECONDS * 1000))

    def began(self, query_id: str, begun: Begun) -> None:
        """Called by the query's task when it begins to run."""
        self._put("begun", query_id, asdict(begun))

    def ended(self, query_id: str, end: QueryEnd) -> None:
        """Called by the query's task when it returns."""
        self._put("end", query_id, asdict(end))

    def is_lost(self, query_id: str, at: float) -> None:
        """Notes that Spark does not know the query any more, or that its executor is silent."""
        self._put("lost", query_id, {"at": at})

    def request_stop(self, query_id: str, stop: StopRequest) -> None:
        """Asks the query's task to return; it looks twice a second."""
        self._put("stop", query_id, asdict(stop))

    def free(self, dead: Begun) -> None:
        """Deletes the lease of a task that is dead, so that nobody waits until it expires. It has no effect on data: a
        later epoch fences a task that lives nevertheless."""
        held = self.client.get(self._lease)
        holder = lease.parsed(held)
        if holder is not None and (holder.host, holder.pid) == (dead.host, dead.pid):
            self.client.eval(lease.RELEASE, 1, self._lease, str(held))

    # -- the log

    def log(self, lines: Sequence[str]) -> None:
        """Adds lines to the log."""
        with self.client.pipeline(transaction=False) as pipe:
            for line in lines:
                pipe.xadd(self._log, {"line": line}, maxlen=LINES_KEPT, approximate=True)
            pipe.execute()

    def log_lines(self) -> list[str]:
        """New lines since the last call of anybody, oldest first; at most `LINES_READ`."""
        after = str(self.client.get(self._read) or "0")
        answer: Any = self.client.xrange(self._log, min=f"({after}" if after != "0" else "-", count=LINES_READ)
        if answer:
            self.client.set(self._read, answer[-1][0])
        return [entry["line"] for _, entry in answer]

    def last_lines(self, count: int) -> list[str]:
        """The end of the log."""
        answer: Any = self.client.xrevrange(self._log, count=count)
        return [entry["line"] for _, entry in reversed(answer)]

    def _put(self, name: str, query_id: str, values: Mapping[str, Any]) -> None:
        self.client.hset(self.key, name, json.dumps({"id": query_id, **values}))


def pairs(client: "redis.Redis") -> list[tuple[str, str]]:
    """Prefix and slave of all pairs of which Redis has a query. Raises `StoreUnreachable`."""
    keys = sorted(set(client.scan_iter(match="sluice:*:query", count=1000, _type="HASH")))
    return [(parts[1], parts[2]) for key in keys if len(parts := str(key).split(":")) == 4]


def _of(kind: type[T], values: Mapping[str, Any]) -> T:
    names = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in names})
