"""A session at a Spark Connect endpoint, with its executors as an `Executor`.

The endpoint is that of `spark_default`. If that is a master (`local[N]`, `spark://host:port`), this process starts a
Connect server for it, which ends with it. A session is opened in the background when executors are first needed, and
again after it was lost; callers that cannot wait test `ready`. Until then a process does not import pyspark, which uses
45 MB.
"""

import logging
import pickle
import re
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from sluice import library
from sluice.counted import counted
from sluice.errors import Terminal
from sluice.executor import ExecutorsFailed, never
from spark_jobs.endpoint import Endpoint
from spark_jobs.executors import (
    ExecutorReport,
    bring_packages,
    check_version,
    differ,
    executors_differ,
    reporter,
    unable,
)
from spark_jobs.job_name import JobName, TaskProgress, naming_channels
from spark_jobs.server import ConnectServer

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

log = logging.getLogger("sluice.job")

T = TypeVar("T")

ANSWER_SECONDS = 10.0
"""Seconds for requests that take Spark a moment; a frozen server never answers."""
ATTACH_SECONDS = 180.0
"""Seconds for which a caller that needs executors waits for a session."""
LOOK_SECONDS = 120.0
"""Seconds for the first answer of executors; those of a cluster are started for it."""
FETCH_SECONDS = 600.0
"""The same if they fetch an archive of packages before."""
NO_SLOT = "all slots are taken, or there are no executors"
PLAIN_PLANS = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}
"""A job is one function over a range of numbers: there is nothing to optimise, which took half of the JVM's time for a
job."""
LONGEST_PAUSE_SECONDS = 15.0
"""Seconds between two attempts to open a session."""
DISK_FULL = "make room where spark.local.dir leads (SPARK_LOCAL_DIRS)"
"""The remedy if Spark cannot write its files."""
CANNOT_WRITE = re.compile(r"No space left on device|File too large|[Qq]uota exceeded|Missing data chunks for artifact")
"""Spark's messages for this; a client gets only the last one if its files did not find room."""


class SparkExecutor:
    """The executors of an endpoint. `name`: the beginning of the names of all jobs on Spark's pages."""

    def __init__(self, name: str, endpoint: Endpoint):
        self._name = name
        self._endpoint = endpoint
        self._own: ConnectServer | None = None
        self._session: SparkSession | None = None
        self._parallelism = 1
        self._progress = TaskProgress()
        self._named = JobName()
        self._refused: Terminal | None = None
        self._reason = "it has not answered yet"
        self._over = False
        self._changed = threading.Condition()
        self._keeper: threading.Thread | None = None

    def begin(self) -> None:
        """Opens a session in the background, for work that comes soon."""
        with self._changed:
            if self._keeper is None and not self._over:
                self._keeper = threading.Thread(target=self._keep_attached, name="spark-session", daemon=True)
                self._keeper.start()

    @property
    def ready(self) -> bool:
        """See `sluice.executor.Executor`."""
        self.begin()
        return self._session is not None

    @property
    def stopped(self) -> Callable[[], bool]:
        """See `sluice.executor.Executor`: canceled work ends with its process."""
        return never

    @property
    def pages(self) -> str:
        """See `sluice.executor.Executor`: for its own server. The connection names the pages of an endpoint."""
        return (self._own.ui_url if self._own else None) or ""

    @property
    def progress(self) -> str:
        """See `sluice.executor.Executor`."""
        return str(self._progress)

    @property
    def waits(self) -> str:
        """See `sluice.executor.Executor`."""
        return f"Spark at {self._endpoint} runs nothing of it: {NO_SLOT}" if self._progress.waits else ""

    @property
    def parallelism(self) -> int:
        self._awaited()
        return self._parallelism

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        """See `sluice.executor.Executor`. Raises `ExecutorsFailed`."""
        session = self._awaited()
        try:
            results: list[T] = self._run(session, task, parts, what)
            return results
        except Exception as failure:
            # A session that was canceled meanwhile may fail in any way: its channel is closed.
            if self._session is session and not _of_spark(failure):
                raise
            self._lose(session, failure)
            raise ExecutorsFailed(f"Spark at {self._endpoint}: {one_line(failure)}.") from failure

    def cancel(self) -> None:
        """Cancels the running tasks; returns at once.

        A job has one session, and one window at a time. Work that did not end may be frozen: another session first
        tests whether there are executors.
        """
        session = self._session
        if session is not None:
            self._lose(session, TimeoutError("its work was canceled"))

    def check(self) -> None:
        """Raises a `Terminal` that needs a person: `spark-secret-missing`, `spark-release-differs`,
        `executors-differ`, …
        """
        if self._refused is not None:
            raise self._refused

    def stop(self) -> None:
        """Ends the session, and the server that was started for it."""
        with self._changed:
            self._over = True
            self._session = None
            self._changed.notify_all()
        if self._keeper is not None:
            self._keeper.join(2 * ANSWER_SECONDS)
        if self._own is not None:
            self._own.remove()

    def _run(self, session: "SparkSession", task: Callable[[int], T], parts: int, what: str) -> list[T]:
        from pyspark import cloudpickle
        from pyspark.sql.types import BinaryType, LongType, StructField, StructType

        called = f"{self._name}: {what}" if what else self._name
        tags = {_tag(self._name), _tag(called)}
        for tag in tags:
            session.addTag(tag)
        try:
            pickled: bytes = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
            schema = StructType([StructField("number", LongType()), StructField("result", BinaryType())])
            with self._named(plain(called)):
                answers = session.range(0, parts, 1, parts).mapInArrow(_work(pickled, what), schema).toArrow()
        finally:
            for tag in tags:
                session.removeTag(tag)
        results = dict(zip(answers["number"].to_pylist(), answers["result"].to_pylist(), strict=True))
        return [pickle.loads(results[number]) for number in range(parts)]  # noqa: S301  made by our own executors

    # -- the session

    def _awaited(self) -> "SparkSession":
        """The session; waits for it. Raises what `check` raises, `ExecutorsFailed`."""
        self.begin()
        end = time.monotonic() + ATTACH_SECONDS
        with self._changed:
            while self._session is None:
                self.check()
                if self._over or not self._changed.wait(end - time.monotonic()):
                    raise ExecutorsFailed(
                        f"Spark at {self._endpoint} does not answer: {self._reason}. Look whether it runs, and whether "
                        "the connection spark_default leads there."
                    )
            return self._session

    def _keep_attached(self) -> None:
        """Keeps a session open as long as one is needed. Its own server ends with this thread, if the kernel supports
        that."""
        pause = 0.5
        while not self._over:
            session = None
            try:
                session = self._connected()
                # Executors that lack packages lack the library as well.
                reports = [] if self._endpoint.packages else self._reports(session, LOOK_SECONDS)
                if not reports or differ(reports):
                    # Its workers may have imported another version by now: those of a new session have not.
                    self._release(session)
                    session = self._connected()
                    reports = self._supplied(session)
            except Terminal as refused:
                with self._changed:
                    self._refused = refused
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._over)
                return
            except Exception as failure:
                reason = one_line(failure)
                if reason != self._reason:
                    log.warning("Spark at %s does not answer: %s. It is tried again.", self._endpoint, reason)
                self._reason = reason
                self._release(session)
                with self._changed:
                    self._changed.wait_for(lambda: self._over, pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                continue
            pause = 0.5
            log.info("Spark at %s is attached, %s at a time", self._place, counted(len(reports), "task"))
            with self._changed:
                self._session, self._parallelism = session, len(reports)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._over or self._session is None)
            self._release(session)

    def _connected(self) -> "SparkSession":
        if not self._endpoint.remote and (self._own is None or not self._own.listens()):
            if self._own is not None:
                self._own.remove()
            self._own = ConnectServer.temporary(self._endpoint.master, self._endpoint.conf)
            self._own.start()
        session = open_session(self._endpoint.remote or (self._own.url if self._own else ""), self._named)
        session.registerProgressHandler(self._progress)  # type: ignore[arg-type]  # any callable does
        return session

    def _supplied(self, session: "SparkSession") -> list[ExecutorReport]:
        """Checks the executors after they have the library, and the packages that are sent. Raises
        `package-archive-missing`, `executors-differ`."""
        if self._endpoint.packages:
            bring_packages(session, self._endpoint.packages)
        folder = Path(tempfile.mkdtemp(prefix="sluice-library-"))
        try:
            session.addArtifacts(str(library.archive(folder)), pyfile=True)
        except Exception as failure:
            # A server that cannot write the archive says that chunks are missing, or cuts the stream of them.
            if "Stream removed" not in str(failure):
                raise
            raise ConnectionError(f"it does not take the library; if it runs, {DISK_FULL}") from failure
        finally:
            shutil.rmtree(folder)
        reports = self._reports(session, FETCH_SECONDS if self._endpoint.packages else LOOK_SECONDS)
        if lacking := differ(reports):
            raise executors_differ(str(self._endpoint), lacking)
        return reports

    def _reports(self, session: "SparkSession", seconds: float) -> list[ExecutorReport]:
        """See `executor_reports`. An own server that does not answer is ended: it does not recover, and the
        next try starts another one."""
        try:
            return executor_reports(session, self._endpoint, self._named, self._name, seconds)
        except TimeoutError:
            if self._own is not None:
                self._own.remove()
            raise

    @property
    def _place(self) -> str:
        return f"{self._endpoint} (its pages: {self.pages})" if self.pages else str(self._endpoint)

    def _lose(self, session: "SparkSession", why: BaseException) -> None:
        """Ends the session after any error; another one begins without it. Only the first caller has an effect."""
        with self._changed:
            if self._session is session:
                self._session, self._reason = None, one_line(why)
                self._changed.notify_all()

    def _release(self, session: "SparkSession | None") -> None:
        """Interrupts its work and ends it; a server that does not answer forgets it later."""
        if session is not None:
            within(ANSWER_SECONDS, lambda: session.interruptTag(_tag(self._name)))
            within(ANSWER_SECONDS, session.stop)


def open_session(url: str, named: JobName) -> "SparkSession":
    """A session at an endpoint: another one each time, or that of the parameter `session_id` of the URL. Its jobs have
    the name of the thread that begins them."""
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    # The result is returned as an error.
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")
    channel = naming_channels(url, named)
    if channel.userId is None:
        channel.set("user_id", "")  # the account's name would take the room of the job's
    session: SparkSession = SparkSession.builder.channelBuilder(channel).create()
    # A dead server is noticed within seconds; callers that wait for it retry themselves.
    session.client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=1000)])
    return session


def executor_reports(
    session: "SparkSession", endpoint: Endpoint, named: JobName, name: str, seconds: float
) -> list[ExecutorReport]:
    """Checks the executors once, with as many tasks as run at the same time by default.

    `name`: the beginning of the job's name. Raises `spark-release-differs`, `executors-differ` if no task can run the
    check, and `TimeoutError` if there is no answer within `seconds`.
    """
    frame = session.range(0, 4096).mapInArrow(reporter(), ExecutorReport.SCHEMA)
    done: list[ExecutorReport | Exception] = []

    def ask() -> None:
        try:
            check_version(str(endpoint), session.version)
            for setting, value in PLAIN_PLANS.items():
                session.conf.set(setting, value)
            with named(plain(f"{name}: look at the executors")):
                done.extend(ExecutorReport(**values) for values in frame.toArrow().to_pylist())
        except Exception as failure:
            done.append(failure)

    if not within(seconds, ask):
        raise TimeoutError(f"no executor has answered for {seconds:.0f} s: {NO_SLOT}")
    for each in done:
        if isinstance(each, Exception):
            if lacking := unable(each):
                raise executors_differ(str(endpoint), [lacking]) from each
            raise each
    return [each for each in done if isinstance(each, ExecutorReport)]


def _work(pickled: bytes, what: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that an executor runs for the numbers of its tasks. It is sent by value, with the task in it as
    bytes."""

    def work(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import importlib
        import pickle

        import pyarrow as pa

        task = pickle.loads(pickled)  # noqa: S301  made by our own driver
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    result = pickle.dumps(task(number))
                except Exception as failure:
                    # Spark writes it to its logs and shows it on its pages: without values of rows.
                    text = importlib.import_module("sluice.log_texts").shown(failure)
                    kind = type(type(failure).__name__, (Exception,), {"__module__": type(failure).__module__})
                    raise kind(text).with_traceback(failure.__traceback__) from None
                yield pa.RecordBatch.from_pydict(
                    {"number": pa.array([number], pa.int64()), "result": pa.array([result], pa.binary())}
                )

    # Spark's plans show the name of the function.
    work.__name__ = what.split(" ", 1)[0] if what.split(" ", 1)[0].isidentifier() else "work"
    return work


def _of_spark(failure: Exception) -> bool:
    """Whether the error comes from the session, and not from Sluice's code."""
    import grpc
    from pyspark.errors import PySparkException

    return isinstance(failure, PySparkException | grpc.RpcError | ConnectionError)


def _tag(text: str) -> str:
    """A tag that Spark accepts: not empty, without commas."""
    return text.replace(",", ";")


def plain(text: str) -> str:
    """The name for Spark's pages, which show other characters as numbers."""
    return text.replace("→", "->").encode("ascii", "replace").decode()


def within(seconds: float, call: Callable[[], object]) -> bool:
    """Whether `call` ended in that time, with or without an error."""

    def quietly() -> None:
        with suppress(Exception):
            call()

    thread = threading.Thread(target=quietly, name="spark-call", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def one_line(error: BaseException) -> str:
    """The error in one line."""
    text = str(error)
    if match := CANNOT_WRITE.search(text):
        return f"its disk is full or may not be written to ({match[0]}): {DISK_FULL}"
    if matched := re.search(r'details = "([^"\n]+)', text):
        return matched[1].rstrip(".")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("SQLSTATE", "at "))]
    # The last line of a Python worker's trace says what happened, the first of a JVM's.
    return (lines[-1] if lines and "Traceback" in text else lines[0] if lines else type(error).__name__).strip(" .")
