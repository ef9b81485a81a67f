"""One Spark session a job, and its executors as a `Executor`."""

import atexit
import logging
import os
import re
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sluice import sql_files
from sluice.apply.executor import ExecutorLost, ExecutorsFailed
from sluice.errors import Terminal

log = logging.getLogger("sluice.job")

T = TypeVar("T")

_ROOT = Path(__file__).resolve().parents[1]
_LOGGING = Path(__file__).with_name("log4j2.properties").as_uri()

_SCRATCH = "driver-"
_SECRET_LACKING = "A secret key must be specified"  # noqa: S105
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"

ANSWER_SECONDS = 10.0
"""So long Spark's driver process has to do what takes it a moment; a frozen one never would."""

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    # The JVM hands out tasks and touches no row: what it would spend on optimising itself, the databases can use.
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING} -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.python.worker.reuse": "true",
    "spark.task.maxFailures": "4",
    # Passwords travel to the executors inside pickled tasks; nothing of them may show in a page or plan.
    "spark.redaction.regex": "(?i)secret|password|token|credential|redis",
}
"""Settings of every job; the connection `spark_default` may replace them."""

PROTECTED = {
    # Spark listens on ports even in `local[N]`, where it makes a secret of its own.
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
}
"""Settings that nothing replaces: who does not know the secret is refused, and what travels is encrypted."""

_CONFIDENTIAL = re.compile("secret|password|token|credential", re.IGNORECASE)


class SparkExecutor:
    """Spark's executors. The session starts in the background, so that small work need not wait for it."""

    def __init__(self, name: str, master: str, conf: Mapping[str, str] | None = None):
        self._name = name
        self._conf = {**DEFAULTS, **(conf or {}), **PROTECTED}
        self._master = with_retries(master, self._conf["spark.task.maxFailures"])
        self._session: Any = None
        self._failure: BaseException | None = None
        self._started = threading.Event()
        threading.Thread(target=self._start, name="spark-session", daemon=True).start()

    @property
    def session(self) -> Any:
        """The session, once it is up. Raises what its start raised."""
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        return self._session

    @property
    def stopped(self) -> Callable[[], bool]:
        """See `sluice.apply.executor.Executor`: what is cancelled ends with its process."""
        return _never

    @property
    def parallelism(self) -> int:
        # First the session: two threads that import pyspark at once see halves of it.
        session = self.session
        with _classified():
            return int(session.sparkContext.defaultParallelism)

    def map(self, task: Callable[[int], T], parts: int) -> list[T]:
        """See `sluice.apply.executor.Executor`."""
        session = self.session
        with _classified():
            results: list[T] = session.sparkContext.parallelize(range(parts), parts).map(task).collect()
            return results

    def warm_up(self, task: Callable[[int], object]) -> None:
        """Lets executors elsewhere run `task` once, in the background; returns at once.

        Those of a local session share the machine with the driver: they start when there is something to do.
        """
        if not one_machine(self._master):
            threading.Thread(target=self._warm_up, args=[task], name="spark-warm-up", daemon=True).start()

    def _warm_up(self, task: Callable[[int], object]) -> None:
        with suppress(Exception):  # who has work for the executors is told
            self.map(task, self.parallelism)

    def cancel(self) -> None:
        """Ends the tasks under way. A job has one session, and one window at a time."""
        if self._started.is_set() and self._session is not None:
            self._answered(self._session.sparkContext.cancelAllJobs)

    def check(self) -> None:
        """Raises `ExecutorLost` when Spark's driver process has died or never came up, `SparkSecretMissing`."""
        if not self._started.is_set():
            return
        if isinstance(self._failure, SparkSecretMissing):
            raise self._failure
        if self._failure is not None:
            raise ExecutorLost(f"Spark did not start: {self._failure}. The job starts again.") from self._failure
        process = self._session.sparkContext._gateway.proc
        if process.poll() is not None:
            raise ExecutorLost(f"Spark's driver process {process.pid} has died. The job starts again.")

    def stop(self) -> None:
        """Ends the session if it is up; one that still starts ends with the process."""
        if self._started.is_set() and self._session is not None:
            # A driver process that has died cannot be stopped in an orderly way, and need not be.
            with suppress(ExecutorLost):
                self.check()
                self._answered(self._session.stop)

    def _answered(self, call: Callable[[], object]) -> None:
        """`call`, for as long as Spark's driver process may take; one that says nothing is killed, and `check` tells.

        Never raises: one that has died has nothing under way.
        """

        def run() -> None:
            with suppress(Exception):
                call()

        thread = threading.Thread(target=run, name="spark-call", daemon=True)
        thread.start()
        thread.join(ANSWER_SECONDS)
        if thread.is_alive():
            process = self._session.sparkContext._gateway.proc
            log.warning("Spark's driver process %d does not answer: it is killed.", process.pid)
            process.kill()
            process.wait()

    def _start(self) -> None:
        try:
            # Spark's workers take `python3` from the PATH unless told otherwise, and the library from PYTHONPATH.
            known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
            own = [str(_ROOT), str(_ROOT / "plugins")]
            os.environ["PYTHONPATH"] = os.pathsep.join([*own, *(path for path in known if path and path not in own)])
            os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
            if self._master.startswith("local"):
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
                self._conf = {"spark.driver.host": "127.0.0.1", **self._conf}
            _use_own_scratch()
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.appName(self._name).master(self._master)
            for key, value in _public(self._conf).items():
                builder = builder.config(key, value)
            with _confidential(self._conf):
                session = builder.getOrCreate()
            if not one_machine(self._master):
                _ship_library(session)
            self._session = session
        except BaseException as failure:  # raised where the session is asked for
            self._failure = SparkSecretMissing(self._master) if _SECRET_LACKING in str(failure) else failure
        finally:
            self._started.set()


def one_machine(master: str) -> bool:
    """Whether there are no executors but this machine's own session: `local`, `local[N]`, `local[*,failures]`."""
    return re.fullmatch(r"local(\[[^\]]*\])?", master) is not None


class SparkSecretMissing(Terminal):
    """A cluster was named, and not the secret that it shares with its drivers."""

    def __init__(self, master: str):
        super().__init__(
            f"Spark at {master} is used with authentication only, and no secret is known here. Put the cluster's "
            "spark.authenticate.secret into the password of the connection spark_default, or into spark-defaults.conf "
            "in SPARK_CONF_DIR."
        )


def _public(conf: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in conf.items() if not _CONFIDENTIAL.search(key) or key in DEFAULTS}


@contextmanager
def _confidential(conf: Mapping[str, str]) -> Iterator[None]:
    """Gives Spark's driver the settings that hold secrets in a file of this user.

    pyspark passes all others as arguments of a process, which every user of the machine can read.
    """
    public = _public(conf)
    hidden = {key: value for key, value in conf.items() if key not in public}
    if not hidden:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="sluice-spark-") as folder:
        path = Path(folder) / "secrets.properties"
        path.touch(mode=0o600)
        path.write_text("".join(f"{key}={_property(value)}\n" for key, value in hidden.items()))
        given = os.environ.get(_SUBMIT_ARGUMENTS)
        file = f"--properties-file {shlex.quote(str(path))} --load-spark-defaults"
        os.environ[_SUBMIT_ARGUMENTS] = f"{file} {given or 'pyspark-shell'}"
        try:
            yield
        finally:
            if given is None:
                del os.environ[_SUBMIT_ARGUMENTS]
            else:
                os.environ[_SUBMIT_ARGUMENTS] = given


def _property(value: str) -> str:
    """`value` as java.util.Properties reads it back."""
    units = value.encode("utf-16-be")
    return "".join(f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2))


@contextmanager
def _classified() -> Iterator[None]:
    """Errors of a session, once it is up, as ours. Raises `ExecutorLost`, `ExecutorsFailed`."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise ExecutorLost(f"Spark's driver process is gone: {error}. The job starts again.") from error
    except (Py4JError, PySparkException) as error:
        raise ExecutorsFailed(f"Spark's executors failed: {_first_line(error)}.") from error


def with_retries(master: str, failures: str) -> str:
    """`local[N]` runs a task once, whatever spark.task.maxFailures says; `local[N,failures]` again where it died."""
    local = re.fullmatch(r"local(?:\[([^,\]]+)\])?", master)
    return f"local[{local[1] or 1},{failures}]" if local else master


def _use_own_scratch() -> None:
    """A folder of this driver's own in each of SPARK_LOCAL_DIRS; those that killed drivers left there are removed."""
    bases = [Path(base.strip()) for base in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if base.strip()]
    if not bases:
        return
    for base in bases:
        for folder in base.glob(f"{_SCRATCH}*"):
            if not _lives(folder.name.removeprefix(_SCRATCH)):
                shutil.rmtree(folder, ignore_errors=True)
        _own(base).mkdir(parents=True, exist_ok=True)
    os.environ["SPARK_LOCAL_DIRS"] = ",".join(str(_own(base)) for base in bases)


def _own(base: Path) -> Path:
    return base / f"{_SCRATCH}{os.getpid()}"


def _lives(pid: str) -> bool:
    """Whether there is such a process, of any user; without /proc, which not every system has."""
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    return True


def _never() -> bool:
    return False


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    # The last line of a Python worker's trace says what happened, the first of a JVM's.
    return (lines[-1] if lines and "Traceback" in str(error) else lines[0] if lines else type(error).__name__).strip()


def _ship_library(session: Any) -> None:
    """Sends the library to executors on other machines, as one archive."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-library-"))
    # Executors that join later fetch it from there as well.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    session.sparkContext.addPyFile(library_archive(folder))


def library_archive(folder: Path) -> str:
    """Makes an archive of the library and its statements in `folder`; returns its path."""
    library = folder / "tree" / "sluice"
    shutil.copytree(_ROOT / "plugins" / "sluice", library, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(sql_files.folder(), library / sql_files.SHIPPED)
    return shutil.make_archive(str(folder / "sluice"), "zip", folder / "tree")
