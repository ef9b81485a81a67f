"""The apply of one pair inside the only task of a streaming query: what runs on the executor.

The task ends when the apply does, and returns in any case: its end is told in Redis, since Spark would run a task that
raises four times. If its process dies, Spark runs it again on another executor; the lease and the epoch keep two from
writing. Its log goes to Redis, from where Airflow's task copies it, and to the executor's log, with passwords replaced.
"""

import logging
import os
import pickle
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote

import pyarrow as pa

from sluice import __version__, library
from sluice.apply.apply_loop import ApplyLoop
from sluice.coordination import redis_store
from sluice.coordination.apply_query import LINES_KEPT, ApplyQuery, Begun, QueryEnd
from sluice.coordination.redis_store import StoreUnreachable
from sluice.errors import Terminal, Transient, labeled
from sluice.exit_status import DONE, TERMINAL, TRANSIENT
from sluice.pair import Pair
from spark_jobs.endpoint import Endpoint
from spark_jobs.session import SparkExecutor

log = logging.getLogger("sluice.job")

LOOK_SECONDS = 0.5
"""Between two looks at Redis for a request to end."""
TELL_SECONDS = 60.0
"""How long a task tries to tell its end while Redis is away."""
LINE = "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s"
"""A line of a job's log."""
TIME = "%Y-%m-%dT%H:%M:%S"


@dataclass(frozen=True)
class ApplyTask:
    """What the task is given: pickled, with passwords. Never log it."""

    id: str
    """Of the job."""
    pair: Pair = field(repr=False)
    redis_url: str = field(repr=False)
    endpoint: Endpoint = field(repr=False)

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Passwords that no line of the log may have, as they are and as URLs have them."""
        infos = (self.pair.master_info, self.pair.slave_info, self.pair.rows_info)
        found = {info.password for info in infos if info is not None}
        found |= redis_store.passwords(self.redis_url)
        found |= {part.removeprefix("token=") for part in self.endpoint.remote.split(";") if part.startswith("token=")}
        return frozenset(text for secret in found if secret for text in (secret, quote(secret, safe="")))

    def masked(self, text: str) -> str:
        """The text with passwords replaced."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def function(archive: bytes, fingerprint: str, pickled: bytes) -> Callable[[Iterator[pa.RecordBatch]], object]:
    """What Spark runs, sent by value. Processes of a stream get nothing of what a session sends, so it carries the
    archive of the library."""

    def apply(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import os
        import sys

        import pyarrow as pa

        for _ in batches:
            pass
        if "sluice" not in sys.modules:
            # A file in memory, which ends with the process: no other account can write to it.
            descriptor = os.memfd_create("sluice")
            with open(descriptor, "wb", closefd=False) as file:
                file.write(archive)
            sys.path.insert(0, f"/proc/self/fd/{descriptor}")
        import importlib

        importlib.import_module("spark_jobs.apply_task").run(pickled, fingerprint)
        yield pa.RecordBatch.from_pydict({"number": pa.array([1], pa.int64())})

    return apply


def run(pickled: bytes, fingerprint: str) -> None:
    """Applies until told to end; returns in any case, see above."""
    task: ApplyTask = pickle.loads(pickled)  # noqa: S301  made by the job that started the query
    pair = task.pair
    query = ApplyQuery(redis_store.connect(task.redis_url), pair.prefix, pair.slave.name)
    stop = threading.Event()
    with _reporting(task, query, stop):
        if _superseded(task, query):
            return
        rc, message = _apply(task, fingerprint, stop)
        _tell(query, task.id, QueryEnd(rc, task.masked(message), time.time()))


def _apply(task: ApplyTask, fingerprint: str, stop: threading.Event) -> tuple[int, str]:
    """The exit status and the last words."""
    executor = SparkExecutor(f"sluice {task.pair}", task.endpoint)
    try:
        if library.fingerprint() != fingerprint:
            raise Transient(
                f"An executor of Spark at {task.endpoint!s} has another version of Sluice loaded: start Spark's "
                "server again, as after each update of Sluice.",
                code="library-differs",
            )
        log.info("%s: the apply of Sluice %s runs on an executor of Spark at %s", task.pair, __version__, task.endpoint)
        store = redis_store.connect(task.redis_url)
        ApplyLoop(task.pair, store, executor, stop, watches_file=False).run()
    except Transient as error:
        log.warning("%s", labeled(error))
        return TRANSIENT, str(error)
    except Terminal as error:
        log.error("%s", labeled(error))
        return TERMINAL, str(error)
    except Exception as error:
        log.exception("The apply failed in a way nobody foresaw; it may be started again")
        return TRANSIENT, f"{type(error).__name__}: {error}"
    finally:
        executor.stop()
    return DONE, ""


def _superseded(task: ApplyTask, query: ApplyQuery) -> bool:
    """Whether this is a late attempt of a query that has ended, was replaced or told to end. Otherwise notes that it
    runs."""
    try:
        state = query.state()
        if state.record is not None and (state.record.id != task.id or not state.runs):
            return True
        if state.stop is not None:  # before it had a slot; somebody waits for its end
            query.ended(task.id, QueryEnd(DONE, "", time.time()))
            return True
        query.began(task.id, _here())
    except StoreUnreachable as away:
        log.warning("%s", away)
    return False


def _here() -> Begun:
    return Begun(socket.gethostname(), os.getpid())


def _tell(query: ApplyQuery, query_id: str, end: QueryEnd) -> None:
    until = time.monotonic() + TELL_SECONDS
    while True:
        try:
            state = query.state()
            if state.record is None or state.record.id == query_id:
                query.ended(query_id, end)
            return
        except StoreUnreachable:
            if time.monotonic() > until:
                return  # Spark knows that the query has ended
            time.sleep(LOOK_SECONDS)


class _Masking(logging.Formatter):
    """Lines of a job's log, with passwords replaced."""

    def __init__(self, masked: Callable[[str], str]) -> None:
        super().__init__(LINE, TIME)
        self.converter = time.gmtime
        self._masked = masked

    def format(self, record: logging.LogRecord) -> str:
        return self._masked(super().format(record))


class _RedisLog(logging.Handler):
    """Keeps lines until they are sent."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.extend(line for line in self.format(record).splitlines() if line.strip())

    def send(self, query: ApplyQuery) -> None:
        """Lines that cannot be sent stay."""
        if lines := [self.lines.popleft() for _ in range(len(self.lines))]:
            try:
                query.log(lines)
            except StoreUnreachable:
                self.lines.extendleft(reversed(lines))


@contextmanager
def _reporting(task: ApplyTask, query: ApplyQuery, stop: threading.Event) -> Iterator[None]:
    """Sends the log, and sets `stop` when the query is told to end or another one has taken its place. Notes that the
    task runs where Redis was away when it began, or was emptied since."""
    to_redis, over = _RedisLog(), threading.Event()
    handlers = [to_redis, logging.StreamHandler(sys.stderr)]  # Spark writes the latter to the executor's log
    logger = logging.getLogger("sluice")
    level = logger.level

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            to_redis.send(query)
            with suppress(StoreUnreachable):
                state = query.state()
                if state.record is None:
                    continue
                if state.record.id != task.id or state.stop is not None:
                    stop.set()
                elif state.runs and state.begun is None:
                    query.began(task.id, _here())

    thread = threading.Thread(target=look, name="apply-query", daemon=True)
    for handler in handlers:
        handler.setFormatter(_Masking(task.masked))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    thread.start()
    log.info("process %d of this executor, job %s", os.getpid(), task.id)
    try:
        yield
    finally:
        # Spark's worker continues with other tasks.
        over.set()
        thread.join()
        for handler in handlers:
            logger.removeHandler(handler)
        logger.setLevel(level)
        to_redis.send(query)
