"""A MariaDB server on the loopback address, run by the programs of the system's package.

Layout of a server's directory: `data/` (owned by the account that runs the server), `passwords/<user>`, `first.sql`
(0600: sets root's password at each start), `port`, `log`.
"""

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pymysql

from devstack.account import make_passable, require_enterable, service_account
from devstack.ports import HOST
from devstack.secret import keep_secret, write_private
from devstack.server import Server, ServerDidNotStart, clean_environment
from sluice.cli.bootstrap import apt_install
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo

SUPERUSER = "root"
PACKAGE = "mariadb-server"
FOLDERS = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/opt/homebrew/bin"
LOGGED = {
    "log_bin": "master-bin",
    "server_id": "1",
    "binlog_format": "ROW",
    "binlog_row_metadata": "FULL",
    "sync_binlog": "1",
}
"""Settings of a server that is a master (docs/mariadb-master.md)."""


def mariadb_missing() -> Terminal:
    """The programs of the server are not installed."""
    command = f"sudo apt-get install {PACKAGE}" if shutil.which("apt-get") else f"your system's {PACKAGE}"
    return Terminal(
        f"No MariaDB server on this machine. Install it with `{command}`, 10.6 or later.", code="mariadb-missing"
    )


def program(name: str) -> Path:
    """Returns the path of a program. Raises `mariadb-missing`."""
    path = shutil.which(name, path=FOLDERS)
    if path is None:
        raise mariadb_missing()
    return Path(path)


def ensure_installed() -> None:
    """Installs the package for root on Debian and Ubuntu. Raises `mariadb-missing`."""
    if shutil.which("mariadbd", path=FOLDERS) is None:
        apt_install([PACKAGE], "a MariaDB server was asked for")
    program("mariadbd")


class MariaDBServer(Server):
    """One server. `settings` are its system variables (`{"innodb_buffer_pool_size": "64M"}`)."""

    product = "MariaDB"
    stop_signals: ClassVar[tuple[tuple[int, float], ...]] = ((signal.SIGTERM, 30.0),)
    orphan_signal: ClassVar[int] = signal.SIGTERM  # it ignores SIGINT

    @property
    def pid_file(self) -> Path:
        return self.data / "mariadb.pid"

    # -- clients

    def info(self, database: str = "mysql", user: str = SUPERUSER) -> ConnectionInfo:
        """Returns how a client reaches `database`. `user` is root or an account made by `create_account`."""
        return ConnectionInfo("mysql", HOST, self.port, database, user, keep_secret(self._password(user)))

    def connect(self, database: str = "mysql", user: str = SUPERUSER) -> "pymysql.Connection[Any]":
        """Returns a connection in autocommit mode, for administration."""
        info = self.info(database, user)
        return pymysql.connect(
            host=info.host,
            port=info.port,
            user=user,
            password=info.password,
            database=database,
            autocommit=True,
            connect_timeout=10,
            charset="utf8mb4",
        )

    def create_account(self, user: str, *databases: str) -> None:
        """Makes databases and an account with all rights in them. Safe to repeat."""
        password = keep_secret(self._password(user))
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE USER IF NOT EXISTS %s@'%%' IDENTIFIED BY %s", (user, password))
            for database in databases:
                name = quoted(database)
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS {name}")
                # In a grant `_` and `%` are wildcards.
                pattern = name.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%%")
                cursor.execute(f"GRANT ALL ON {pattern}.* TO %s@'%%'", (user,))

    def drop_account(self, user: str, *databases: str) -> None:
        """Drops the account and the databases with their content."""
        with self.connect() as connection, connection.cursor() as cursor:
            for database in databases:
                cursor.execute(f"DROP DATABASE IF EXISTS {quoted(database)}")
            cursor.execute("DROP USER IF EXISTS %s@'%%'", (user,))

    def _password(self, user: str) -> Path:
        return self.directory / "passwords" / quote(user, safe="")

    # -- the server

    def is_ready(self) -> bool:
        """Whether root can log in."""
        if not self.is_running():
            return False
        try:
            self.connect().close()
        except (pymysql.Error, OSError):
            return False
        return True

    def prepare(self) -> None:
        """Prepares account, permissions, port and files. Safe to repeat.

        Raises `port-in-use`, `folder-not-enterable`, `no-service-account`, `mariadb-missing`, `ServerDidNotStart`.
        """
        account = service_account()
        require_enterable(self.directory.parent, account)
        self.directory.mkdir(parents=True, exist_ok=True)
        make_passable(self.directory, account)
        require_enterable(self.directory, account)
        program("mariadbd")
        if not self.is_running():
            self.pid_file.unlink(missing_ok=True)
            if account:
                account.take_over(self.data)
        self.require_port()
        if not (self.data / "mysql").exists() or self._unfinished.exists():
            self._install()
        password = keep_secret(self._password(SUPERUSER)).replace("\\", "\\\\").replace("'", "''")
        statements = [
            f"ALTER USER root@localhost IDENTIFIED BY '{password}';",
            f"CREATE USER IF NOT EXISTS root@'{HOST}' IDENTIFIED BY '{password}';",
            f"ALTER USER root@'{HOST}' IDENTIFIED BY '{password}';",
            f"GRANT ALL ON *.* TO root@'{HOST}' WITH GRANT OPTION;",
            # The installation makes root accounts without a password for the machine's own names.
            f"DELETE FROM mysql.global_priv WHERE user = 'root' AND host NOT IN ('localhost', '{HOST}');",
            "FLUSH PRIVILEGES;",
        ]
        write_private(self._first, "\n".join(statements) + "\n")
        if account:
            account.own(self._first)

    def command(self) -> list[str]:
        settings = {
            "datadir": str(self.data),
            "pid-file": str(self.pid_file),
            "socket": str(self.data / "mariadb.sock"),
            "bind-address": HOST,
            "port": str(self.port),
            "init-file": str(self._first),
            "skip-name-resolve": "ON",
            "character-set-server": "utf8mb4",
            "local-infile": "ON",
            "max-allowed-packet": "1G",
            **self.settings,
        }
        return [
            str(program("mariadbd")),
            "--no-defaults",
            *(f"--{name.replace('_', '-')}={value}" for name, value in settings.items()),
        ]

    def popen_options(self) -> dict[str, Any]:
        account = service_account()
        # The caller's TMPDIR may be a folder that the server's account cannot write.
        own = {"LC_ALL": "C", "TMPDIR": str(self.data)}
        environment = {**clean_environment("MYSQL", "MARIADB", "LC_", "LANG"), **own}
        return {**super().popen_options(), **(account.popen if account else {}), "env": environment}

    @property
    def _first(self) -> Path:
        return self.directory / "first.sql"

    @property
    def _unfinished(self) -> Path:
        """Exists while the files are made. If it is found later, that was interrupted, and the files hold no data."""
        return self.directory / "install.unfinished"

    def _install(self) -> None:
        account = service_account()
        self._unfinished.touch()
        if self.data.exists():
            shutil.rmtree(self.data)
        self.data.mkdir(mode=0o700)
        if account:
            account.own(self.data)
        done = subprocess.run(
            [
                str(program("mariadb-install-db")),
                "--no-defaults",
                f"--datadir={self.data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
                *(f"--{name}={value}" for name, value in self.settings.items() if name == "innodb-page-size"),
            ],
            capture_output=True,
            text=True,
            check=False,
            **self.popen_options(),
        )
        if done.returncode != 0:
            raise ServerDidNotStart(self.name, self.directory, done.stdout[-500:] + done.stderr[-1500:])
        self._unfinished.unlink()


def quoted(name: str) -> str:
    """Returns the identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"
