"""A PostgreSQL server on the loopback address, of any release in `devstack.postgres_releases`.

Layout of a server's directory:

    data/              the cluster (PGDATA), owned by the account that runs the server
    passwords/<user>   generated passwords, one file a role, mode 0600
    port               the port, kept from one start to the next
    log                the server's output, unless the caller redirects it
"""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import psycopg
from psycopg import sql

from devstack.account import Account, folder_not_enterable, make_passable, require_enterable, service_account
from devstack.ports import HOST
from devstack.postgres_programs import programs
from devstack.postgres_releases import NEWEST, binaries
from devstack.process import await_true, processes_in
from devstack.secret import keep_secret
from devstack.server import Server, ServerDidNotStart, clean_environment
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo

SUPERUSER = "postgres"


def postgres_release_differs(name: str, directory: Path, release: str, wanted: int) -> Terminal:
    """Another release made the cluster's files."""
    return Terminal(
        f"{name} in {directory} was made by PostgreSQL {release}, which PostgreSQL {wanted} cannot read. Choose "
        f"release {release}, or remove the folder to start afresh.",
        code="postgres-release-differs",
    )


def binary(name: str) -> Path:
    """Returns the path of a program of the newest release, e.g. `psql` or `pgbench`."""
    return binaries() / name


class PostgresServer(Server):
    """One cluster and its server.

    `settings` are server settings (`{"fsync": "off"}`), passed at each start. `release` is PostgreSQL's major version,
    such as 14; it cannot change after a cluster's first start.
    """

    product = "PostgreSQL"

    # Fast shutdown disconnects clients and writes everything; immediate shutdown leaves the rest to crash recovery.
    stop_signals: ClassVar[tuple[tuple[int, float], ...]] = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0))

    def __init__(
        self,
        directory: Path | str,
        port: int | None = None,
        name: str | None = None,
        settings: Mapping[str, str] | None = None,
        release: int = NEWEST,
    ) -> None:
        super().__init__(directory, port, name, settings)
        self.release = release

    @property
    def pid_file(self) -> Path:
        return self.data / "postmaster.pid"

    # -- clients

    def info(self, database: str = "postgres", user: str = SUPERUSER) -> ConnectionInfo:
        """Returns how a client reaches `database`. `user` is the superuser or a role made by `create_role`."""
        return ConnectionInfo("postgres", HOST, self.port, database, user, keep_secret(self._password(user)))

    def connect(self, database: str = "postgres", user: str = SUPERUSER) -> psycopg.Connection[Any]:
        """Returns a connection in autocommit mode, for administration."""
        info = self.info(database, user)
        return psycopg.connect(
            host=info.host,
            port=info.port,
            dbname=database,
            user=user,
            password=info.password,
            autocommit=True,
            connect_timeout=10,
            application_name="sluice devstack",
        )

    def create_role(self, role: str, attributes: str = "") -> None:
        """Makes a role that can log in, unless it exists. `info(user=role)` has its password."""
        password = keep_secret(self._password(role))
        with self.connect() as connection:
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                return
            create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} ").format(sql.Identifier(role), sql.Literal(password))
            connection.execute(create + sql.SQL(attributes))

    def create_database(self, database: str, owner: str = SUPERUSER) -> None:
        """Makes a database, unless it exists."""
        with self.connect() as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone():
                statement = sql.SQL("CREATE DATABASE {} OWNER {}")
                connection.execute(statement.format(sql.Identifier(database), sql.Identifier(owner)))

    def _password(self, user: str) -> Path:
        return self.directory / "passwords" / quote(user, safe="")

    # -- the server

    def is_ready(self) -> bool:
        """Whether it accepts connections, according to the status line of its lock file."""
        try:
            lines = self.pid_file.read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[7].startswith("ready") and self.is_running()

    def prepare(self) -> None:
        """Prepares account, permissions, port and cluster. Safe to repeat.

        Raises `port-in-use`, `folder-not-enterable`, `no-service-account`, `postgres-missing`,
        `postgres-release-differs`, `ServerDidNotStart`.
        """
        account = service_account()
        self.require_release()
        require_enterable(self.directory.parent, account)
        self.directory.mkdir(parents=True, exist_ok=True)
        make_passable(self.directory, account)
        require_enterable(self.directory, account)
        programs(account, self.release)
        if not self.is_running():
            # Children of a killed postmaster live a moment longer and keep its shared memory.
            await_true(lambda: not processes_in(self.data), 10.0)
            # PostgreSQL refuses to start when another process has the pid in this file.
            self.pid_file.unlink(missing_ok=True)
            if account:
                account.take_over(self.data)
        self.require_port()
        if not (self.data / "PG_VERSION").exists() or self._unfinished.exists():
            self._initdb(account)

    def require_release(self) -> None:
        """Raises `postgres-release-differs` when another release made the cluster."""
        file = self.data / "PG_VERSION"
        release = file.read_text().strip() if file.exists() and not self._unfinished.exists() else None
        if release not in (None, str(self.release)):
            raise postgres_release_differs(self.name, self.directory, str(release), self.release)

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
            "log_line_prefix": "%m [%p] %q%u@%d %a ",
            **self.settings,
        }
        options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self.data), *options]

    def popen_options(self) -> dict[str, Any]:
        account = service_account()
        environment = {**clean_environment("PG", "LC_", "LANG"), "LC_ALL": "C"}
        return {**super().popen_options(), **(account.popen if account else {}), "env": environment}

    # -- the cluster

    @property
    def _programs(self) -> Path:
        return programs(service_account(), self.release)

    @property
    def _unfinished(self) -> Path:
        """Exists while initdb runs. If it is found later, initdb was interrupted, and the cluster holds no data."""
        return self.directory / "initdb.unfinished"

    def _initdb(self, account: Account | None) -> None:
        self._unfinished.touch()
        if self.data.exists():
            shutil.rmtree(self.data)
        self.data.mkdir(mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=self.directory, prefix="password-") as handover:  # mode 0600
            handover.write(keep_secret(self._password(SUPERUSER)))
            handover.flush()
            if account:
                account.own(self.data)
                account.own(Path(handover.name))
            try:
                done = subprocess.run(
                    [*self._initdb_command(), "--pwfile", handover.name],
                    capture_output=True,
                    text=True,
                    check=False,
                    **self.popen_options(),
                )
            except PermissionError as error:
                raise folder_not_enterable(account.name if account else "you", self._programs, str(error)) from error
        if done.returncode != 0:
            raise ServerDidNotStart(self.name, self.directory, done.stdout[-500:] + done.stderr[-1500:])
        self._unfinished.unlink()

    def _initdb_command(self) -> list[str]:
        authentication = ["--auth-local=scram-sha-256", "--auth-host=scram-sha-256"]
        # Sorting and case conversion are the same on every system; before 17 they depend on the system's libraries.
        language = ["--encoding=UTF8", "--locale=C.UTF-8"]
        if self.release >= 17:
            language = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        durability = ["--no-sync"] if self.settings.get("fsync") == "off" else []
        return [
            str(self._programs / "initdb"),
            "-D",
            str(self.data),
            "-U",
            SUPERUSER,
            *authentication,
            *language,
            *durability,
        ]
