"""A Spark Connect server on this machine: its settings, how it is started, reached and ended.

Its settings, with the token, are in a file of this user, because others can read command lines and environments.
Nothing here imports pyspark: the server is a separate program.
"""

import contextlib
import importlib.util
import os
import re
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from sluice.errors import Terminal, Transient
from sluice.listeners import belongs_to, listener
from sluice.paths import python_path
from sluice.with_parent import with_parent

HOST = "127.0.0.1"
START_SECONDS = 120.0
END_SECONDS = 5.0
"""Seconds for a server to end without a signal."""
SLOTS_A_CORE = 32
"""The number of tasks at the same time on one core of this machine: each pair's apply holds one, and mostly waits."""
FEWEST_SLOTS = 64

_LOGGING = Path(__file__).with_name("log4j2.properties").as_uri()
_SCRATCH = "driver-"
_SECRET_LACKING = "A secret key must be specified"  # noqa: S105
_OF_JVM = (
    f"-Dlog4j2.configurationFile={_LOGGING}",
    # It only schedules tasks: the databases can use the CPU that its JIT compiler would spend.
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    # It returns unused memory after each collection.
    "-XX:InitialHeapSize=192m -XX:MinHeapSize=32m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40",
    "-XX:-ShrinkHeapInSteps",
)
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*(\d+)\s*\]")
"""Workers that live and die with the server; the number is the memory of each, in MB."""
_HIDDEN = (
    "AIRFLOW", "SLUICE_REDIS", "SPARK_REMOTE", "SPARK_CONNECT", "SPARK_LOCAL_REMOTE", "PYSPARK_SUBMIT", "PGPASS",
    "AWS_ACCESS_KEY", "AWS_SECRET", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
)  # fmt: skip
"""Prefixes of environment variables that a server does not inherit: it does not need them, or they have secrets."""

DEFAULTS = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": " ".join(_OF_JVM),
    # Spark makes the JVM collect; by default every half hour. A small heap takes some tens of milliseconds.
    "spark.cleaner.periodicGC.interval": "1min",
    "spark.python.worker.reuse": "true",
    "spark.task.maxFailures": "4",
    # No job waits for the tasks of another one.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
    # Work of a client that died ends within half a minute.
    "spark.connect.execute.manager.detachedTimeout": "15s",
    "spark.connect.execute.manager.maintenanceInterval": "5s",
    # A session holds the apply of a pair, which continues while nobody asks about it: while Airflow is down.
    "spark.connect.session.manager.defaultSessionTimeout": "60d",
    # The pages have no authentication: they only show.
    "spark.ui.killEnabled": "false",
    "spark.ui.threadDumpsEnabled": "false",
    "spark.ui.heapHistogramEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "5000",
    "spark.sql.ui.retainedExecutions": "100",
    "spark.sql.connect.ui.retainedSessions": "50",
    "spark.sql.connect.ui.retainedStatements": "100",
    # Passwords are sent to the executors inside pickled tasks; no page or plan may show them.
    "spark.redaction.regex": "(?i)secret|password|token|credential|redis",
}
"""Settings of a server; its user may replace them."""

PROTECTED = {
    # Spark listens on ports even in `local[N]`, where it generates a secret.
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.connect.grpc.binding.address": HOST,
}
"""Settings that nothing overrides: authentication and encryption."""


def spark_server_did_not_start(master: str, log: str) -> Transient:
    """The server ended, or was not ready in time."""
    return Transient(f"The Spark Connect server for {master} did not start: {log}", code="spark-server-did-not-start")


def unsafe_folder(path: Path, reason: str) -> Terminal:
    """Other users could replace what Spark keeps in a folder."""
    return Terminal(
        f"{path} cannot be Spark's scratch folder: {reason}. Remove it, or name another folder in SPARK_LOCAL_DIRS.",
        code="unsafe-folder",
    )


def is_local(master: str) -> bool:
    """Whether the executors are this machine's own: `local`, `local[N]`, `local[*,failures]`."""
    return re.fullmatch(r"local(\[[^\]]*\])?", master) is not None


def with_retries(master: str, failures: str) -> str:
    """The master with retries: `local[N]` runs a task once, ignoring spark.task.maxFailures, `local[N,failures]`
    runs it again if it died. `local[*]` gets more slots than this machine has cores."""
    match = re.fullmatch(r"local(?:\[([^,\]]+)\])?", master)
    if match is None:
        return master
    slots = str(max(FEWEST_SLOTS, SLOTS_A_CORE * _cores())) if match[1] == "*" else match[1] or "1"
    return f"local[{slots},{failures}]"


class ConnectServer:
    """One server, with its own folder for settings, log and scratch space. `conf`: settings of Spark. Servers of one
    folder run one after another."""

    def __init__(
        self, folder: Path, master: str, conf: Mapping[str, str], *, port: int, token: str, ui_port: int | None = None
    ):
        self.folder = folder
        self.master = master
        self.conf = conf
        self.port = port
        self.token = token
        self.ui_port = ui_port
        self.log = folder / "log"
        self._child: subprocess.Popen[bytes] | None = None

    @classmethod
    def temporary(cls, master: str, conf: Mapping[str, str] | None = None) -> "ConnectServer":
        """A server for the life of this process, with its own ports and token. Removes what dead ones left."""
        folder = Path(tempfile.mkdtemp(prefix="spark-", dir=own_scratch()))
        return cls(folder, master, conf or {}, port=_free_port(), token=secrets.token_urlsafe(32), ui_port=_free_port())

    @property
    def url(self) -> str:
        """The URL for `SparkSession.builder.remote`, with the token. Without TLS only for `localhost`."""
        return f"sc://localhost:{self.port}/;token={self.token}"

    @property
    def ui_url(self) -> str | None:
        """The address of its pages, if it has any."""
        return f"http://{HOST}:{self.ui_port}" if self.ui_port is not None else None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    def settings(self) -> dict[str, str]:
        """All settings of the server."""
        merged = {**DEFAULTS, **self.conf}
        own = {
            "spark.master": with_retries(self.master, merged["spark.task.maxFailures"]),
            "spark.app.name": "sluice",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.connect.authenticate.token": self.token,
            "spark.sql.warehouse.dir": (self.folder / "warehouse").as_uri(),
            "spark.ui.enabled": "false" if self.ui_port is None else "true",
        }
        if self.ui_port is not None:
            own["spark.ui.port"] = str(self.ui_port)
        at_home = {"spark.driver.host": HOST, "spark.driver.bindAddress": HOST}
        if match := _LOCAL_CLUSTER.fullmatch(self.master):
            # Spark's default, 1 GB, is more than its workers have: then they never start an executor.
            merged = {**DEFAULTS, **at_home, "spark.executor.memory": f"{match[1]}m", **self.conf}
        if is_local(self.master):
            driver_options = at_home
            # A window is divided into as many shares as there are cores.
            driver_options["spark.default.parallelism"] = str(_cores())
            # Workers are forks of a process that has imported the library.
            driver_options["spark.python.daemon.module"] = "spark_jobs.worker_daemon"
            # No client sends files, so all clients share the workers.
            driver_options["spark.sql.artifact.isolation.enabled"] = "false"
            driver_options["spark.sql.artifact.isolation.alwaysApplyClassloader"] = "false"
            merged = {**DEFAULTS, **driver_options, **self.conf}
        return {**merged, **own, **PROTECTED}

    def prepare(self) -> None:
        """Prepares its folder: writes the settings, and empties the scratch space. Can be repeated."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        self._properties.unlink(missing_ok=True)
        properties = os.open(self._properties, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(properties, "w") as file:
            file.writelines(f"{key}={_property(value)}\n" for key, value in self.settings().items())

    def command(self) -> list[str]:
        """The command line, without secrets."""
        options = ["--properties-file", str(self._properties), "--load-spark-defaults"]
        return [str(home() / "bin" / "spark-submit"), *options, str(Path(__file__).with_name("serve.py"))]

    def environment(self) -> dict[str, str]:
        """The environment of the server, and of executors on this machine, which use the library of this process."""
        passed = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)}
        known = [path for path in passed.get("PYTHONPATH", "").split(os.pathsep) if path]
        own = python_path()
        return {
            **passed,
            "PYTHONPATH": os.pathsep.join([*own, *(path for path in known if path not in own)]),
            "PYSPARK_PYTHON": sys.executable,  # Spark's workers would take any python3 of the PATH
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_HOME": str(home()),
            "SPARK_LOCAL_DIRS": str(self._scratch),
            **({"SPARK_LOCAL_IP": HOST} if is_local(self.master) or _LOCAL_CLUSTER.fullmatch(self.master) else {}),
        }

    def spawn(
        self, output: IO[bytes], *, environment: Mapping[str, str] | None = None, dies: bool = False
    ) -> "subprocess.Popen[bytes]":
        """Starts the server after `prepare()`, without waiting for it. `dies`: it ends with the calling thread."""
        command = with_parent(self.command()) if dies else self.command()
        self._child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=self.folder,
            env=dict(environment or self.environment()), umask=0o077, start_new_session=not dies,
        )  # fmt: skip
        return self._child

    def listens(self) -> bool:
        """Whether its port accepts connections. Raises `spark-port-taken`."""
        found = listener(self.port)
        if found is not None and (
            found.uid != os.geteuid() or (self._child is not None and not belongs_to(found, self._child.pid))
        ):
            self.stop()
            raise Transient(
                f"Another process, of the user with the uid {found.uid}, listens on {HOST}:{self.port}, where "
                "Spark's server was to listen. Nothing was sent to it.",
                code="spark-port-taken",
            )
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1.0):
            return True
        return False

    def start(self) -> None:
        """Starts it and returns when it listens. It ends with the calling thread, if the kernel supports that. Raises
        `spark-server-did-not-start`, `spark-secret-missing`."""
        self.prepare()
        with open(self.log, "wb") as output:
            child = self.spawn(output, dies=True)
        end = time.monotonic() + START_SECONDS
        while not self.listens():
            if child.poll() is not None or time.monotonic() > end:
                self.stop()
                log = self.log.read_text(errors="replace")
                if _SECRET_LACKING in log:
                    raise Terminal(
                        f"Spark at {self.master} is used with authentication only, and no secret is known here. Put "
                        "the cluster's spark.authenticate.secret into the password of the connection spark_default, "
                        "or into spark-defaults.conf in SPARK_CONF_DIR.",
                        code="spark-secret-missing",
                    )
                raise spark_server_did_not_start(
                    self.master, log[-1500:].strip() or f"it is silent for {START_SECONDS:.0f} s"
                )
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends it, by force if necessary."""
        child = self._child
        if child is None:
            return
        child.terminate()
        try:
            child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def remove(self) -> None:
        """Ends it, and removes its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _properties(self) -> Path:
        return self.folder / "spark.properties"

    @property
    def _scratch(self) -> Path:
        return self.folder / "scratch"


def own_scratch() -> Path:
    """This process's folder in the first of SPARK_LOCAL_DIRS, or else in the system's temporary folder. Removes what
    killed processes left there. Raises `unsafe-folder`."""
    named = [Path(base.strip()) for base in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if base.strip()]
    base = named[0] if named else Path(tempfile.gettempdir()) / f"sluice-spark-{os.geteuid()}"
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_safe(base, shared=bool(named))
    for folder in base.glob(f"{_SCRATCH}*"):
        if not _lives(folder.name.removeprefix(_SCRATCH)):
            shutil.rmtree(folder, ignore_errors=True)
    own = base / f"{_SCRATCH}{os.getpid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    _require_safe(own, shared=False)
    return own


def _require_safe(path: Path, *, shared: bool) -> None:
    """Raises `unsafe-folder` unless only this user, or root, can replace what is in the folder. `shared`: others may
    have folders there as well, as in a temporary folder."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise unsafe_folder(path, "it is a link or a file")
    if status.st_uid != os.geteuid() and not (shared and status.st_uid == 0):
        raise unsafe_folder(path, f"it belongs to the user with the uid {status.st_uid}")
    if status.st_mode & 0o022 and not (shared and status.st_mode & stat.S_ISVTX):
        raise unsafe_folder(path, "other users may write there")


def _lives(pid: str) -> bool:
    """Whether there is such a process, of any user; without /proc, which some systems lack."""
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    return True


def home() -> Path:
    """The folder of the installed pyspark, with Spark in it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Terminal("pyspark is not installed: install requirements.lock.", code="pyspark-missing")
    return Path(spec.origin).parent


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _property(value: str) -> str:
    """`value` escaped for java.util.Properties."""
    units = value.encode("utf-16-be")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))
