"""Airflow on the loopback address: its settings, its four processes and its database.

Our own supervisor starts and watches each process: `airflow standalone` leaves processes behind and restarts none. The
processes get everything by environment variables, which only the same account can read, never by command line.
"""

import base64
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from devstack.ports import HOST, is_free, port_in_use
from devstack.postgres import PostgresServer
from devstack.secret import keep, keep_secret, write_private
from devstack.server import clean_environment, kept_port
from sluice.cli.airflow_api import AirflowApi, ApiUnreachable
from sluice.errors import Terminal

REPOSITORY = Path(__file__).resolve().parent.parent
USER = "admin"
DATABASE = ROLE = "airflow"

SETTINGS = {
    "CORE__EXECUTOR": "LocalExecutor",
    "CORE__LOAD_EXAMPLES": "False",
    "CORE__PARALLELISM": "8",  # LocalExecutor forks that many workers at once
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
    "API__HOST": HOST,
    "API__WORKERS": "1",
    "DAG_PROCESSOR__REFRESH_INTERVAL": "30",
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
    "DAG_PROCESSOR__PARSING_PROCESSES": "1",
    # Airflow notices a killed component or task in seconds; its default is five minutes.
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "20",
    # The executor learns this many seconds later that a task has left its worker; until then the slot is taken.
    "WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    # The API server imports much at its first requests. On a slow machine that exceeds the default of 5 s: tasks are
    # killed and tried again, and repeated requests slow it further. It is less than the time-out of heartbeats.
    "WORKERS__EXECUTION_API_TIMEOUT": "20",
    "LOGGING__COLORED_CONSOLE_LOG": "False",
    "USAGE_DATA_COLLECTION__ENABLED": "False",
}


class Airflow:
    """One Airflow installation: a folder, a metadata database, a port, and the variables that its tasks see."""

    def __init__(
        self,
        directory: Path | str,
        metadata: PostgresServer,
        port: int | None = None,
        exports: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        self.metadata = metadata
        self.exports = dict(exports or {})
        self.user = USER
        self._given = port

    @property
    def port(self) -> int:
        """The given port, else that of the last start, else a free one, which is then kept."""
        return kept_port(self.directory / "port", self._given)

    @property
    def log_port(self) -> int:
        """The port of `devstack.log_server`."""
        return kept_port(self.directory / "log-port", None)

    @property
    def url(self) -> str:
        """The address of the web pages and of the API."""
        return f"http://{HOST}:{self.port}"

    @property
    def password(self) -> str:
        """The generated password of the user `admin`."""
        return keep_secret(self.directory / "secrets" / "admin", 12)

    def api(self) -> AirflowApi:
        """Returns a client of the public API. It logs in on its first call."""
        return AirflowApi(self.url, self.user, self.password)

    def components(self) -> list["Component"]:
        """Returns the four processes."""
        return [
            Component(self, "api-server", ("api-server",), "metadatabase"),
            # The API server reads task logs from the folder that all share, see devstack/log_server.py.
            Component(self, "scheduler", ("scheduler", "--skip-serve-logs"), "scheduler"),
            Component(self, "dag-processor", ("dag-processor",), "dag_processor"),
            Component(self, "triggerer", ("triggerer", "--skip-serve-logs"), "triggerer"),
        ]

    def prepare(self) -> None:
        """Makes folders and secrets. Safe to repeat."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        (self.directory / "work").mkdir(exist_ok=True)
        passwords = json.dumps({self.user: self.password})
        if not self._passwords.exists() or self._passwords.read_text().strip() != passwords:
            write_private(self._passwords, passwords + "\n")

    def migrate(self) -> None:
        """Makes or upgrades the metadata database, which must run. Does nothing when this release did so before.

        Raises `airflow-migration-failed`.
        """
        version = importlib.metadata.version("apache-airflow-core")
        done = self.metadata.directory / "airflow-version"
        if done.exists() and done.read_text() == version:
            return
        self.prepare()
        self.metadata.create_role(ROLE)
        self.metadata.create_database(DATABASE, owner=ROLE)
        result = subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **self.popen_options(),
        )
        if result.returncode != 0:
            raise Terminal(
                f"airflow db migrate failed:\n{result.stdout[-2000:]}\nRemove the cause that it names and start again;"
                f" if the database came from a newer Airflow, install that or remove the state folder.",
                code="airflow-migration-failed",
            )
        done.write_text(version)

    def environment(self) -> dict[str, str]:
        """Returns the environment of every process of Airflow and of every task."""
        database = self.metadata.info(DATABASE, ROLE)
        address = f"{database.user}:{database.password}@{database.host}:{database.port}/{database.database}"
        settings = {
            **SETTINGS,
            "CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
            "CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins"),
            "CORE__FERNET_KEY": self.fernet_key,
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._passwords),
            # Without the second one Airflow would use the driver asyncpg for asynchronous access.
            "DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg://{address}",
            "DATABASE__SQL_ALCHEMY_CONN_ASYNC": f"postgresql+psycopg_async://{address}",
            "API__PORT": str(self.port),
            "API__BASE_URL": self.url,
            "API__SECRET_KEY": keep_secret(self.directory / "secrets" / "api"),
            "API_AUTH__JWT_SECRET": keep_secret(self.directory / "secrets" / "jwt", 64),
            "CORE__HOSTNAME_CALLABLE": "devstack.log_server.host",
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(self.log_port),
            "LOGGING__WORKER_LOG_SERVER_PORT": str(self.log_port),
            "LOGGING__BASE_LOG_FOLDER": str(self.directory / "logs"),
        }
        own = clean_environment("AIRFLOW__", "PYTHON", "SLUICE_")
        return {
            **own,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), own.get("PATH", os.defpath)]),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "plugins")]),
            "PYTHONUNBUFFERED": "1",
            "PYSPARK_PYTHON": sys.executable,  # else Spark's workers take any python3 of the PATH
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
            "SPT_NOENV": "1",  # process titles must not overwrite /proc/PID/environ: leftovers are found by it
            "AIRFLOW_HOME": str(self.directory),
            **{f"AIRFLOW__{name}": value for name, value in settings.items()},
            **self.exports,
        }

    def popen_options(self) -> dict[str, Any]:
        """Returns session, environment and umask of a process of Airflow."""
        return {
            "start_new_session": True,
            "stdin": subprocess.DEVNULL,
            "cwd": self.directory / "work",
            "umask": 0o077,
            "env": self.environment(),
        }

    @property
    def _passwords(self) -> Path:
        return self.directory / "secrets" / "passwords.json"

    @property
    def fernet_key(self) -> str:
        """The key that encrypts connections in the database."""
        return keep(self.directory / "secrets" / "fernet", lambda: base64.urlsafe_b64encode(os.urandom(32)).decode())


class Component:
    """One of Airflow's processes."""

    start_timeout = 120.0
    # The second SIGTERM ends Airflow at once; after the first its triggerer may wait ten seconds for a dead child.
    stop_signals = ((signal.SIGTERM, 5.0), (signal.SIGTERM, 3.0))

    def __init__(self, airflow: Airflow, name: str, arguments: tuple[str, ...], health: str) -> None:
        self.airflow, self.name, self.arguments, self.health = airflow, name, arguments, health
        self._spawned = time.time()

    @property
    def port(self) -> int | None:
        return self.airflow.port if self.name == "api-server" else None

    def prepare(self) -> None:
        """Raises `port-in-use`."""
        self.airflow.prepare()
        if self.port and not is_free(self.port):
            raise port_in_use("Airflow", self.port, "--airflow-port PORT")

    def spawn(self, output: IO[bytes], **options: Any) -> subprocess.Popen[bytes]:
        """Starts the process. Call `prepare()` before. Does not wait until it is ready."""
        self._spawned = time.time()
        module = "devstack.log_server" if self.name == "triggerer" else "airflow"
        command = [sys.executable, "-m", module, *self.arguments]
        options = {**self.airflow.popen_options(), **options}
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, **options)

    def is_ready(self) -> bool:
        """Whether the API answers and, for the other processes, shows a heartbeat since this start."""
        try:
            report = AirflowApi(self.airflow.url).health()
        except ApiUnreachable:
            return False
        state = report.get(self.health) or {}
        if self.name == "api-server":
            return state.get("status") == "healthy"
        beat = next((value for key, value in state.items() if key.endswith("heartbeat") and value), None)
        return beat is not None and datetime.fromisoformat(beat).timestamp() > self._spawned
