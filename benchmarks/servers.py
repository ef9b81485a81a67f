"""The servers of a bench: a master, a slave, a Redis and Spark of its own, or database servers it was pointed at."""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

import psutil
import psycopg
from psycopg import sql

from benchmarks import progress
from devstack.account import new_folder
from devstack.postgres import PostgresServer
from devstack.redis import RedisServer
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import PostgresSession
from spark_jobs.endpoint import Endpoint
from spark_jobs.server import ConnectServer
from spark_jobs.warm_up import warm_up

SETTINGS = {
    "shared_buffers": "512MB",
    # No checkpoint falls into a run by chance; each run begins with one.
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
    # Nor a vacuum: statistics are made before each run.
    "autovacuum": "off",
    "max_connections": "200",
}
"""Settings of all own servers besides PostgreSQL's defaults: commits are durable."""
OF_THE_MASTER = {"wal_level": "logical"}
DATABASES = ("sluice_bench", "sluice_bench_native", "sluice_bench_rows", "sluice_bench_slony")
"""Made on the servers: ours, the reference's, two of other triggers."""


class Servers(AbstractContextManager["Servers"]):
    """Servers that are started on entering, and removed with all their data on leaving. Databases of a bench on
    foreign servers are dropped."""

    def __init__(self, args: argparse.Namespace, places: Sequence[str] = ("master", "slave")) -> None:
        self.settings = {**SETTINGS, **dict(pair.split("=", 1) for pair in args.set)}
        self._foreign = {place: getattr(args, place) for place in places}
        # Not below a closed folder: another account runs PostgreSQL for root.
        self.folder = new_folder("sluice-bench-")
        self.folder.chmod(0o711)
        self._own: dict[str, PostgresServer] = {}
        self._admin: dict[str, ConnectionInfo] = {}
        self._made: set[tuple[str, str]] = set()
        """Databases, by place and name."""
        self.redis = RedisServer(self.folder / "redis", settings={"appendonly": "no"})
        self._spark: dict[str, ConnectServer] = {}

    def __enter__(self) -> "Servers":
        progress.say("starts the databases")
        try:
            self.redis.start(die_with_parent=True)
            for place, uri in self._foreign.items():
                self._admin[place] = _login(place, uri) if uri else self._start(place)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def redis_url(self) -> str:
        return self.redis.url

    def spark(self, master: str, conf: Mapping[str, str] | None = None) -> Endpoint:
        """A warm Connect server for a master of Spark, or the endpoint of one that is elsewhere (`sc://…`)."""
        if master.startswith("sc://"):
            return Endpoint(master)
        if master not in self._spark:
            self._spark[master] = server = ConnectServer.temporary(master, conf)
            server.start()
            warm_up(Endpoint(server.url))
        return Endpoint(self._spark[master].url)

    def database(self, place: str, name: str) -> ConnectionInfo:
        """A new empty database on `master` or `slave`, and its address; an existing one of that name is dropped
        first."""
        name = f"{name}_{place}"  # both may be on one server
        with self.admin(place) as admin:
            self._drop(admin, name)
            self._made.add((place, name))
            admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        return replace(self._admin[place], database=name)

    def admin(self, place: str) -> psycopg.Connection[Any]:
        """As superuser, in autocommit mode, outside of the databases of the bench."""
        return connect(self._admin[place])

    def roots(self) -> dict[str, int]:
        """The processes to be counted, of servers on this machine."""
        found: dict[str, int] = {}
        for place, info in self._admin.items():
            if place in self._own or info.host in ("127.0.0.1", "localhost", "::1"):
                with self.admin(place) as admin, suppress(psutil.Error):
                    found[place] = psutil.Process(admin.info.backend_pid).ppid()
        if process := self.redis.process():
            found["Redis"] = process.pid
        for number, server in enumerate(self._spark.values()):
            if server.pid is not None:
                found["Spark" if number == 0 else f"Spark {number + 1}"] = server.pid
        return found

    def quiet_down(self) -> None:
        """Writes dirty pages, so that no run pays for what was before it."""
        for place in self._admin:
            with self.admin(place) as admin:
                admin.execute("CHECKPOINT")

    def versions(self) -> dict[str, str]:
        found = {}
        for place in self._admin:
            with self.admin(place) as admin:
                found[place] = str(admin.execute("SHOW server_version").fetchone()[0])  # type: ignore[index]
        return found

    def describe(self) -> Mapping[str, Any]:
        """For the detail of a report."""
        own = [place for place in self._admin if place in self._own]
        return {"PostgreSQL": self.versions(), "own servers": own, "settings": self.settings if own else {}}

    def _start(self, place: str) -> ConnectionInfo:
        settings = {**self.settings, **(OF_THE_MASTER if place == "master" else {})}
        server = PostgresServer(self.folder / place, name=place, settings=settings)
        self._own[place] = server
        server.start(die_with_parent=True)
        return server.info()

    def _drop(self, admin: psycopg.Connection[Any], name: str) -> None:
        for (slot,) in admin.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE database = %s AND NOT active", [name]
        ).fetchall():
            admin.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _end(self) -> None:
        for place, name in self._made:
            if place not in self._own:
                with suppress(psycopg.Error), self.admin(place) as admin:
                    self._drop(admin, name)
        for server in (*self._own.values(), self.redis):
            server.stop()
        for connect_server in self._spark.values():
            connect_server.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


def connect(info: ConnectionInfo, application: str = "sluice bench") -> PostgresSession:
    """A plain connection in autocommit mode, whose commits are as durable as the server says."""
    return PostgresSession.connect(
        host=info.host, port=info.port, dbname=info.database, user=info.user, password=info.password,
        application_name=application, autocommit=True, **dict(info.options),  # type: ignore[arg-type]
    )  # fmt: skip


def _login(place: str, uri: str) -> ConnectionInfo:
    """Who is meant by a URI, with the password that libpq found for it. Raises `server-unfit-for-bench`."""
    try:
        with psycopg.connect(uri, autocommit=True) as connection:
            row = connection.execute(
                "SELECT rolsuper, current_setting('wal_level') FROM pg_roles WHERE rolname = current_user"
            ).fetchone()
            assert row is not None
            if not row[0] or (place == "master" and row[1] != "logical"):
                raise Terminal(
                    f"The {place}: a bench needs a superuser, and wal_level = logical on the master. Here the user "
                    f"{'is' if row[0] else 'is not'} one, and wal_level is {row[1]}.",
                    code="server-unfit-for-bench",
                )
            info = connection.info
            return ConnectionInfo("postgres", info.host, info.port, info.dbname, info.user, info.password)
    except psycopg.Error as error:
        raise Terminal(f"The server cannot be reached: {error}", code="server-unfit-for-bench") from error
