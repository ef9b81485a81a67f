"""The servers of all runs with proxies in front of them, and Spark if a run needs it."""

import resource
import shutil
from contextlib import AbstractContextManager, suppress
from copy import copy
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psutil

from devstack.account import new_folder
from devstack.mariadb import MariaDBServer, ensure_installed
from devstack.ports import HOST
from devstack.postgres import PostgresServer
from devstack.process import ProcessId
from devstack.redis import RedisServer
from devstack.server import Server
from devstack.spark import SparkServer
from sluice.model.connection import ConnectionInfo
from tests.scenarios.faults import binlog
from workload.faults.proxy import COMMIT_OF_MARIADB, Proxy

SEGMENT = 1024 * 1024
CLUSTER = {
    "spark.executor.memory": "512m",
    "spark.authenticate.secret": "of the fault runs",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    # As on other machines: each session brings the library along.
    "spark.executorEnv.PYTHONPATH": "/nowhere",
}
"""A master, two workers and their executors, each executor a separate process, which live and die with the server."""
SETTINGS = {
    # Killed processes lose what they had in memory; what they gave to the system survives. So nothing need be synced.
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "logical",
    "max_connections": "100",
    "max_prepared_transactions": "20",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "5s",
    "deadlock_timeout": "200ms",
}


class SmallSegments(PostgresServer):
    """Files of 1 MB for the write-ahead log, so that a limit of that size on files leaves the log alone."""

    def _initdb_command(self) -> list[str]:
        return [*super()._initdb_command(), "--wal-segsize=1"]

    def lose_power(self) -> None:
        """Simulates a power failure: after the restart the log has only what the server had synced."""
        with self.connect() as session:
            row = session.execute("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint").fetchone()
        assert row is not None
        self.kill()
        segment, synced = divmod(int(row[0]), SEGMENT)
        name = f"{segment // (2**32 // SEGMENT):08X}{segment % (2**32 // SEGMENT):08X}"
        for file in (self.data / "pg_wal").glob("[0-9A-F]" * 24):
            if file.name[8:] > name:
                file.unlink()
            elif file.name[8:] == name:
                with file.open("r+b") as opened:
                    opened.seek(synced)
                    opened.write(bytes(SEGMENT - synced))


class Servers(AbstractContextManager["Servers"]):
    """A master, a slave and a Redis, each on its own, each behind a proxy."""

    slave: PostgresServer | MariaDBServer

    def __init__(self) -> None:
        # Not under pytest's own folder: that is closed to the account that runs PostgreSQL.
        self.folder = new_folder("sluice-faults-")
        self.master = SmallSegments(self.folder / "master", name="master", settings=SETTINGS)
        self.slave = SmallSegments(self.folder / "slave", name="slave", settings=SETTINGS)
        self.redis = RedisServer(self.folder / "redis", settings={"appendonly": "no"})
        self.proxies: dict[str, Proxy] = {}
        self._sparks: dict[bool, SparkServer] = {}
        """Connect servers: of this machine alone, and of the cluster."""
        self._spark: SparkServer | None = None
        """The one of the present run."""
        self._with_mariadb: Servers | None = None

    @property
    def all(self) -> dict[str, Server]:
        return {"master": self.master, "slave": self.slave, "redis": self.redis}

    def __enter__(self) -> "Servers":
        for name, server in self.all.items():
            server.start(die_with_parent=True)
            self.proxies[name] = Proxy(server.port)
        return self

    def with_mariadb(self) -> "Servers":
        """The same master and Redis, with a MariaDB as the slave."""
        if self._with_mariadb is None:
            ensure_installed()
            other = self._with_mariadb = copy(self)
            other.slave = MariaDBServer(self.folder / "mariadb", name="slave", settings=binlog.SETTINGS)
            other.slave.start(die_with_parent=True)
            other.proxies = {**self.proxies, "slave": Proxy(other.slave.port, COMMIT_OF_MARIADB)}
        return self._with_mariadb

    def __exit__(self, *_: object) -> None:
        if (other := self._with_mariadb) is not None:
            other.proxies["slave"].close()
            other.slave.stop()
        for proxy in self.proxies.values():
            proxy.close()
        for server in self.all.values():
            server.stop()
        for spark in self._sparks.values():
            spark.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_all(self) -> None:
        """Starts the stopped servers; call it from the thread that owns them, because they end with it."""
        for server in self.all.values():
            server.start(die_with_parent=True)
        if self._spark is not None and not self.spark_parts(""):
            self.restart_spark()

    def spark_url(self, *, cluster: bool) -> str:
        """The URL of a running, warm Connect server; from now on it belongs to the run."""
        if cluster not in self._sparks:
            of_cluster = SparkServer(self.folder / "cluster", conf=CLUSTER, master="local-cluster[2,1,512]")
            self._sparks[cluster] = of_cluster if cluster else SparkServer(self.folder / "spark")
            self._sparks[cluster].start()
        self._spark = self._sparks[cluster]
        return self._spark.server.url

    def restart_spark(self) -> None:
        """Restarts Spark without waiting, as the stack's supervisor does, or a person if it does not answer."""
        assert self._spark is not None
        self._spark.kill()
        self._spark.start(waits=False)

    def spark_parts(self, word: str) -> list[ProcessId]:
        """Processes of the run's Connect server whose command line contains the word, parents first."""
        found = []
        for process in self._spark.family() if self._spark is not None else []:
            with suppress(psutil.Error):
                if word in " ".join(psutil.Process(process.pid).cmdline()):
                    found.append(process)
        return found

    def limit_spark(self, size: int) -> None:
        """Limits the files of all its processes; a new executor inherits the limit."""
        for process in self.spark_parts(""):
            with suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def through_proxy(self, name: str, info: ConnectionInfo) -> dict[str, Any]:
        """The connection through the proxy to the master or slave that `info` reaches directly."""
        return {**info.to_dict(), "port": self.proxies[name].port}

    @property
    def redis_url(self) -> str:
        """The URL through the proxy."""
        parts = urlsplit(self.redis.url)
        place = parts.netloc.replace(f":{parts.port}", f":{self.proxies['redis'].port}")
        return urlunsplit(parts._replace(netloc=place))
