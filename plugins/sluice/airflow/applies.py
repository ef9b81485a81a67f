"""The running apply of a pair: a query of Spark, or a process of this machine.

An apply is a query wherever the connection `spark_default` names an endpoint of Spark Connect, unless the
configuration says `runs_on: process`. It is a process while the endpoint does not answer or has no free slot, and goes
back automatically. Modules of Spark are imported only where it is asked: they use 70 MB.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache

from redis import Redis

from sluice.airflow import connections, jobs
from sluice.airflow.job import Job, JobState, Kind, Owner, Result, new_id
from sluice.configuration.model import Replication
from sluice.coordination import redis_store
from sluice.coordination.apply_query import LONG_SECONDS, ApplyQuery, QueryRecord, QueryState
from sluice.errors import SluiceError, Terminal, Transient
from sluice.model.apply_status import StopRequest
from sluice.model.connection import ConnectionInfo
from sluice.pair import Pair
from spark_jobs.endpoint import Endpoint

POLL_SECONDS = 0.2


@dataclass(frozen=True)
class QueryJob:
    """The apply of a pair as a query of Spark. Methods raise `StoreUnreachable`."""

    prefix: str
    slave: str
    record: QueryRecord

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def owner(self) -> Owner:
        return Owner(**self.record.owner)

    @property
    def launched(self) -> float:
        """Seconds since the epoch."""
        return self.record.launched

    @property
    def attempt(self) -> int:
        """Number of applies in a row that died young before this one."""
        return self.record.attempt

    @property
    def pair(self) -> str:
        return f"{self.prefix}/{self.slave}"

    @property
    def runs_on(self) -> str:
        """Where it runs, for people."""
        return f"Spark at {self.record.place}, query {self.record.query or 'that is being started'}"

    @property
    def noted(self) -> ApplyQuery:
        return of_pair(self.prefix, self.slave)

    def state(self) -> JobState:
        """As Redis has it; the trigger that watches the query asks Spark."""
        state = self._state()
        return JobState.RUNNING if state.runs else JobState.ENDED if state.end is not None else JobState.LOST

    def result(self) -> Result | None:
        """How it ended; None while it runs or if it is lost."""
        end = self._state().end
        return Result(end.rc, end.at, end.message) if end is not None else None

    def gone_since(self) -> float:
        """When an ended apply was last known to run, in seconds since the epoch."""
        state = self._state()
        return state.end.at if state.end is not None else state.lost or time.time()

    def stop_request(self) -> StopRequest | None:
        return self._state().stop

    def owned_by(self, owner: Owner) -> "QueryJob":
        """The job with another task watching it; written."""
        return QueryJob(self.prefix, self.slave, self.noted.owned_by(self.record, asdict(owner)))

    def stop(self, by: str, reason: str) -> None:
        """Asks its task to end, and returns at once."""
        if self.stop_request() is None:
            self.noted.request_stop(self.id, StopRequest(by, reason, time.time()))

    def await_end(self, seconds: float) -> None:
        """Waits until a query that was asked to end has ended; after `seconds` Spark ends it. Raises
        `query-does-not-end`."""
        deadline = time.monotonic() + seconds
        while self._state().runs:
            if time.monotonic() > deadline:
                self.kill()
                return
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        """Lets Spark end it. Raises `query-does-not-end` if Spark does not and the query's task holds the lease; one
        without it is fenced by the next epoch."""
        from spark_jobs import apply_query

        try:
            apply_query.stop(connections.endpoint(), self.record)
        except SluiceError as away:
            if self._state().holder is not None:
                raise Transient(
                    f"{self.pair}: the apply {self.id} was told to end and still runs: {away} It is tried again.",
                    code="query-does-not-end",
                ) from away
        self.noted.is_lost(self.id, time.time())

    def last_lines(self, count: int) -> list[str]:
        return self.noted.last_lines(count)

    def _state(self) -> QueryState:
        state = self.noted.state()
        if state.record is None or state.record.id != self.id:
            # Another one took its place, or Redis was emptied.
            return QueryState(self.record, lost=time.time() if state.record is not None else None)
        return state


Apply = Job | QueryJob


def of_pair(prefix: str, slave: str) -> ApplyQuery:
    """What Redis has about the query of a pair."""
    return ApplyQuery(_client(redis_store.url()), prefix, slave)


@cache
def _client(url: str) -> Redis:
    """One for all pairs that this process watches."""
    return redis_store.connect(url)


def query(prefix: str, slave: str) -> QueryJob | None:
    """The last query of a pair, in any state; None if there was none. Raises `StoreUnreachable`."""
    record = of_pair(prefix, slave).state().record
    return QueryJob(prefix, slave, record) if record is not None else None


def live(prefix: str, slave: str) -> Apply | None:
    """The running apply of a pair. Raises `StoreUnreachable`."""
    state = of_pair(prefix, slave).state()
    if state.record is not None and state.runs:
        return QueryJob(prefix, slave, state.record)
    return jobs.live(Kind.APPLY, prefix, slave)


def last(prefix: str, slave: str) -> Apply | None:
    """The newest apply of a pair, in any state. Raises `StoreUnreachable`."""
    candidates: Sequence[Apply | None] = (query(prefix, slave), jobs.last(Kind.APPLY, prefix, slave))
    return max((one for one in candidates if one is not None), key=lambda one: one.launched, default=None)


def read(job_id: str, prefix: str, slave: str) -> Apply | None:
    """The apply with that id; None if nothing is known about it. Raises `StoreUnreachable`."""
    job = Job.read(job_id)
    if job is not None:
        return job
    last_query = query(prefix, slave)
    return last_query if last_query is not None and last_query.id == job_id else None


def config_digest(replication: Replication) -> str:
    """A text that changes with the files of the configuration."""
    digest = hashlib.sha256()
    for file in (replication.source, *replication.points_at):
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()[:16]


# -- where an apply runs


def why_process(replication: Replication) -> str:
    """Why the apply of a replication is no query, whether or not Spark answers; empty if it is one.

    Raises `connection-unusable`, `connections-unavailable`.
    """
    if replication.apply.runs_on == "process":
        return f"{replication.source} says runs_on: process"
    endpoint = connections.endpoint()
    if not endpoint.remote:
        return f"the connection {connections.SPARK_CONNECTION} names no endpoint of Spark Connect"
    if endpoint.packages:
        return "executors get their packages from an archive, and a streaming query gets none of it"
    return ""


def why_no_spark() -> str:
    """Why the endpoint runs no task now; empty if it does. Takes up to two minutes, where executors are started."""
    from spark_jobs import apply_query

    try:
        return apply_query.runs_tasks(connections.endpoint())
    except SluiceError as error:
        return str(error)


def short_session(endpoint: Endpoint) -> float | None:
    """The seconds for which the endpoint keeps a session while nobody asks, if that is less than a day."""
    from spark_jobs import apply_query

    try:
        seconds = apply_query.session_seconds(endpoint)
    except SluiceError:
        return None  # whether it answers is another question
    return seconds if seconds is not None and seconds < LONG_SECONDS else None


def spark_away() -> type[Transient]:
    """The error of an endpoint that does not answer or runs no task."""
    from spark_jobs.apply_query import SparkAway

    return SparkAway


def begin(
    replication: Replication,
    digest: str,
    pair: tuple[str, str],
    infos: dict[str, ConnectionInfo],
    owner: Owner,
    attempt: int,
) -> QueryJob:
    """Starts a query. Call it inside `ApplyQuery.exclusive`. `digest`: of the files from before they were read, so
    that the trigger finds what changes while the query is started.

    Raises `SparkAway`, `StoreUnreachable`, and what needs a person: `spark-release-differs`, `executors-differ`.
    """
    from spark_jobs import apply_query
    from spark_jobs.apply_task import ApplyTask

    prefix, slave = pair
    endpoint, noted = connections.endpoint(), of_pair(prefix, slave)
    job_id = new_id(Kind.APPLY, prefix, slave)
    record = QueryRecord(
        job_id, asdict(owner), time.time(), apply_query.new_session(), str(endpoint), attempt=attempt,
        config=digest,
    )  # fmt: skip
    # First the record: if this process dies now, the next try finds the query by its session.
    noted.write(record)
    task = ApplyTask(job_id, Pair.of(replication, slave, infos), connections.redis_url(), endpoint)
    try:
        record = apply_query.start(task, record)
    except (Terminal, Transient):
        noted.is_lost(job_id, time.time())
        raise
    noted.write(record)
    return QueryJob(prefix, slave, record)
