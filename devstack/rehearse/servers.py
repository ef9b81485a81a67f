"""The throw-away servers of a rehearsal: three PostgreSQL and a Redis, in a folder that is removed whatever happens.

Each side is a server, no database of a shared one: roles, `ALTER DATABASE … SET`, `ALTER SYSTEM`, tablespaces and
prepared transactions belong to a server, and a script may change each of them. The captured server begins as a copy of
the plain one's files, so that both have the same OIDs, rows and values of volatile defaults.

The kernel ends the servers with this process. A folder that a killed rehearsal left is removed by the next one.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from devstack.account import new_folder, service_account
from devstack.mariadb import MariaDBServer, ensure_installed
from devstack.postgres import PostgresServer
from devstack.redis import RedisServer
from devstack.server import Server
from sluice.model.connection import ConnectionInfo

FOLDER = "sluice-rehearsal-"
LOCK = "lock"
YOUNG_SECONDS = 60.0
"""A folder without a lock may be being made for so long."""

SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "logical",
    "max_connections": "100",
    "max_prepared_transactions": "10",
}
PLAIN, CAPTURED, SLAVE = "plain", "captured", "slave"


class Servers:
    """The servers, started by `start`; `stack` ends them and removes their folder."""

    def __init__(self, stack: ExitStack, release: int, settings: Mapping[str, str], vendors: Collection[str]):
        """`vendors`: of the slaves. Raises `mariadb-missing`."""
        remove_left()
        self.folder = new_folder(FOLDER)
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        lock = stack.enter_context((self.folder / LOCK).open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.postgres = {
            name: PostgresServer(
                self.folder / name, name=f"PostgreSQL '{name}'", settings={**SETTINGS, **settings}, release=release
            )
            for name in (PLAIN, CAPTURED, SLAVE)
        }
        self.mariadb: MariaDBServer | None = None
        if "mysql" in vendors:
            ensure_installed()
            self.mariadb = MariaDBServer(self.folder / "mariadb", name="MariaDB")
        self.redis = RedisServer(self.folder / "redis", settings={"appendonly": "no"})
        self._stack = stack

    def start(self) -> None:
        """Starts all but the captured one. Call it in the thread with which they are to end."""
        every: list[Server] = [self.postgres[PLAIN], self.postgres[SLAVE], self.redis]
        every += [self.mariadb] if self.mariadb else []
        with ThreadPoolExecutor(len(every)) as pool:
            for made in [pool.submit(server.prepare) for server in every]:
                made.result()
        for server in every:
            self._start(server)

    def slave_database(self, vendor: str, name: str) -> ConnectionInfo:
        """Makes an empty database for a slave."""
        if vendor == "mysql":
            assert self.mariadb is not None
            self.mariadb.create_account("slave", name)
            return self.mariadb.info(name)
        self.postgres[SLAVE].create_database(name)
        return self.postgres[SLAVE].info(name)

    def start_captured(self) -> None:
        """Starts the captured server with all that the plain one has. Ends the sessions there."""
        plain, captured = self.postgres[PLAIN], self.postgres[CAPTURED]
        plain.stop()
        for name in ("data", "passwords"):
            shutil.copytree(plain.directory / name, captured.directory / name, symlinks=True)
        if account := service_account():
            account.take_over(captured.data)
        for server in (plain, captured):
            self._start(server)

    def _start(self, server: Server) -> None:
        self._stack.callback(server.stop)
        server.start(die_with_parent=True)


def remove_left(parent: Path | None = None) -> list[Path]:
    """Removes the folders of rehearsals that were killed, and returns them."""
    removed = []
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{FOLDER}*"):
        try:
            if folder.stat().st_uid == os.geteuid() and _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
        except FileNotFoundError:  # another rehearsal was faster
            continue
    return removed


def _is_left(folder: Path) -> bool:
    try:
        with open(folder / LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > YOUNG_SECONDS
    except BlockingIOError:
        return False
