"""The apply of a pair as a streaming query of Spark: starts it, asks about it, stops it.

The query has one row and one task, which applies until it is told to end (`spark_jobs.apply_task`). Spark holds it:
whoever started it may end, and another client finds it by the ids of session and query. A question keeps the session
alive, which otherwise ends after `spark.connect.session.manager.defaultSessionTimeout`, with the query.
"""

import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from sluice import library
from sluice.coordination.apply_query import QueryRecord
from sluice.errors import SluiceError, Transient
from sluice.pair import Pair
from spark_jobs import apply_task
from spark_jobs.apply_task import ApplyTask
from spark_jobs.endpoint import Endpoint
from spark_jobs.executors import differ, executors_differ, outdated
from spark_jobs.job_name import JobName
from spark_jobs.session import LOOK_SECONDS, executor_reports, one_line, open_session, plain

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.connect.streaming.query import StreamingQuery

log = logging.getLogger("sluice.job")

ANSWER_SECONDS = 15.0
"""For an answer of the server; one that is frozen never gives any."""
SESSION_TIMEOUT = "spark.connect.session.manager.defaultSessionTimeout"
SPARKS_OWN = "60m"
"""Its value in Spark if nobody sets it."""
UNITS = {"": 0.001, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
EXECUTOR_SECONDS = 60.0
"""For the first answer of an executor: until then all slots are taken, or there are no executors. For the start of a
query, too."""

T = TypeVar("T")


class SparkAway(Transient):
    """The endpoint does not answer, or runs no task."""

    def __init__(self, endpoint: Endpoint, reason: str):
        super().__init__(f"Spark at {endpoint}: {reason}.")
        self.reason = reason


class SparkAnswer(StrEnum):
    """What Spark says about a query."""

    ACTIVE = "active"
    ENDED = "ended"
    UNKNOWN = "unknown"
    """Its session has ended, or the server was started again."""


def new_session() -> str:
    """The id of a session that does not exist yet."""
    return str(uuid.uuid4())


def query_name(pair: Pair) -> str:
    """The name on Spark's pages."""
    return plain(f"sluice {pair}: apply")


def start(task: ApplyTask, record: QueryRecord) -> QueryRecord:
    """Starts the query in the session of `record`; returns the record with Spark's ids, without waiting for the task.

    Raises `SparkAway`, and what needs a person: `spark-release-differs`, `executors-differ`.
    """
    from pyspark import cloudpickle

    endpoint = task.endpoint
    pickled: bytes = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
    work = apply_task.function(library.archive_bytes(), library.fingerprint(), pickled)
    named = JobName()

    def begin(session: "SparkSession") -> QueryRecord:
        # Folders of queries that were killed are removed as well.
        session.conf.set("spark.sql.streaming.forceDeleteTempCheckpointLocation", "true")
        with named(query_name(task.pair)):
            query = (
                session.readStream.format("rate-micro-batch")
                .option("rowsPerBatch", "1")
                .option("numPartitions", "1")
                .load()
                .selectExpr("value")
                .mapInArrow(work, "number long")  # type: ignore[arg-type]
                .writeStream.format("noop")
                .queryName(query_name(task.pair))
                .trigger(availableNow=True)
                .start()
            )
        return replace(record, query=query.id, run=query.runId)

    with _session(endpoint, record.session, named) as session:
        _check(session, endpoint, named, f"sluice {task.pair}", EXECUTOR_SECONDS)
        # The server lives, since an executor has answered; a busy one is given its time.
        record = replace(record, session_seconds=_answered(endpoint, lambda: _kept(session), EXECUTOR_SECONDS))
        return _answered(endpoint, lambda: begin(session), EXECUTOR_SECONDS)


def look(endpoint: Endpoint, record: QueryRecord) -> tuple[SparkAnswer, str]:
    """The state of a query, with the reason if it failed; its session stays alive. Raises `SparkAway`."""

    def ask(session: "SparkSession") -> tuple[SparkAnswer, str]:
        try:
            query = _query(session, record)
            if query is None:
                return SparkAnswer.UNKNOWN, ""
            if query.isActive:
                return SparkAnswer.ACTIVE, ""
            failure = query.exception()
            return SparkAnswer.ENDED, one_line(failure) if failure is not None else ""
        except Exception as failure:
            if _forgotten(failure):
                return SparkAnswer.UNKNOWN, one_line(failure)
            raise

    with _session(endpoint, record.session) as session:
        answer = _answered(endpoint, lambda: ask(session), ANSWER_SECONDS)
        if answer[0] is SparkAnswer.UNKNOWN:
            # The question has made a session of that name.
            session.release_session_on_close = True
        return answer


def stop(endpoint: Endpoint, record: QueryRecord) -> None:
    """Ends the query, and its session. Raises `SparkAway`."""

    def end(session: "SparkSession") -> None:
        with suppress(Exception):  # it has ended, or its session has
            if (query := _query(session, record)) is not None:
                query.stop()
        session.client.release_session()

    with _session(endpoint, record.session) as session:
        _answered(endpoint, lambda: end(session), ANSWER_SECONDS)


def runs_tasks(endpoint: Endpoint) -> str:
    """Empty if the endpoint runs a task within `LOOK_SECONDS`, else the reason. Executors may be started for it."""
    try:
        with _own_session(endpoint) as session:
            _check(session, endpoint, JobName(), "sluice", LOOK_SECONDS)
    except SparkAway as away:
        return away.reason
    except SluiceError as refused:
        return str(refused)
    return ""


def session_seconds(endpoint: Endpoint) -> float | None:
    """How long the endpoint keeps a session while nobody asks, in seconds; None forever, or if its setting is not
    understood. Raises `SparkAway`."""
    with _own_session(endpoint) as session:
        return _answered(endpoint, lambda: _kept(session), ANSWER_SECONDS)


@contextmanager
def _own_session(endpoint: Endpoint) -> "Iterator[SparkSession]":
    """A session that ends with the block."""
    with _session(endpoint, new_session()) as session:
        try:
            yield session
        finally:
            with suppress(SluiceError):
                _answered(endpoint, session.client.release_session, ANSWER_SECONDS)


def _kept(session: "SparkSession") -> float | None:
    return kept_seconds(session.conf.get(SESSION_TIMEOUT, SPARKS_OWN) or SPARKS_OWN)


def kept_seconds(text: str) -> float | None:
    """The seconds of a time as Spark writes it: `60m`, `5min`, `86400s`, milliseconds without a unit. None for one that
    is negative (forever), or not understood."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    unit = UNITS.get(match[2]) if match else None
    return int(match[1]) * unit if match and unit is not None else None


def _check(session: "SparkSession", endpoint: Endpoint, named: JobName, name: str, seconds: float) -> None:
    """Raises `SparkAway` if no executor answers or one has another version of the library loaded, `executors-differ` if
    they lack more."""
    try:
        reports = executor_reports(session, endpoint, named, name, seconds)
    except SluiceError:
        raise
    except TimeoutError as silent:
        raise SparkAway(endpoint, str(silent)) from silent
    except Exception as failure:
        raise SparkAway(endpoint, f"it does not answer: {one_line(failure)}") from failure
    # The query carries the library to processes that have loaded none.
    if lacking := differ([report for report in reports if report.library or report.lacking]):
        if outdated(lacking):
            raise SparkAway(endpoint, "; ".join(lacking))  # Ends with the upgrade of the other side.
        raise executors_differ(str(endpoint), lacking)


def _query(session: "SparkSession", record: QueryRecord) -> "StreamingQuery | None":
    """The query; one whose id nobody noted is the only one of its session."""
    from pyspark.sql.connect.streaming.query import StreamingQuery

    if record.query:
        return StreamingQuery(session, record.query, record.run)
    return next(iter(session.streams.active), None)


def _forgotten(failure: Exception) -> bool:
    """Whether the server no longer knows the session or the query."""
    text = str(failure)
    return any(
        word in text for word in ("SESSION_CLOSED", "SESSION_NOT_FOUND", "STREAMING_QUERY_NOT_FOUND", "is not found")
    )


@contextmanager
def _session(endpoint: Endpoint, session_id: str, named: JobName | None = None) -> "Iterator[SparkSession]":
    """A client of the session, which the client's end does not end. Raises `SparkAway`."""
    import pyspark.sql.connect.session  # noqa: F401 - the server is not to be blamed for the seconds that this takes

    url = endpoint.remote + ("" if endpoint.remote.endswith((";", "/")) else ";" if "/;" in endpoint.remote else "/;")
    session = _answered(
        endpoint, lambda: open_session(f"{url}session_id={session_id}", named or JobName()), ANSWER_SECONDS
    )
    session.release_session_on_close = False
    try:
        yield session
    finally:
        # Closing waits for answers of a server that may be frozen.
        threading.Thread(target=session.stop, name="spark-close", daemon=True).start()


def _answered(endpoint: Endpoint, ask: Callable[[], T], seconds: float) -> T:
    """The answer. Raises `SparkAway` for any failure, and for none in time."""
    done: list[T | Exception] = []

    def quietly() -> None:
        try:
            done.append(ask())
        except Exception as failure:
            done.append(failure)

    thread = threading.Thread(target=quietly, name="spark-ask", daemon=True)
    thread.start()
    thread.join(seconds)
    if not done:
        raise SparkAway(endpoint, f"it does not answer within {seconds:.0f} s")
    answer = done[0]
    if isinstance(answer, SluiceError):
        raise answer
    if isinstance(answer, Exception):
        raise SparkAway(endpoint, f"it does not answer: {one_line(answer)}") from answer
    return answer
