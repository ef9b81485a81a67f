"""The servers of all runs, and the proxies in front of them."""

import shutil
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from devstack.account import new_folder
from devstack.postgres import PostgresServer
from devstack.redis import RedisServer
from devstack.server import Server
from sluice.model.connection import ConnectionInfo
from tests.scenarios.faults.proxy import Proxy

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


class Servers(AbstractContextManager["Servers"]):
    """A master, a slave and a Redis, each on its own, each behind a proxy."""

    def __init__(self) -> None:
        # Not under pytest's own folder: that is closed to the account that runs PostgreSQL.
        self.folder = new_folder("sluice-faults-")
        self.master = SmallSegments(self.folder / "master", name="master", settings=SETTINGS)
        self.slave = SmallSegments(self.folder / "slave", name="slave", settings=SETTINGS)
        self.redis = RedisServer(self.folder / "redis", settings={"appendonly": "no"})
        self.proxies: dict[str, Proxy] = {}

    @property
    def all(self) -> dict[str, Server]:
        return {"master": self.master, "slave": self.slave, "redis": self.redis}

    def __enter__(self) -> "Servers":
        for name, server in self.all.items():
            server.start(die_with_parent=True)
            self.proxies[name] = Proxy(server.port)
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in self.proxies.values():
            proxy.close()
        for server in self.all.values():
            server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_all(self) -> None:
        """Those that are down; from the thread that owns them, because they end with it."""
        for server in self.all.values():
            server.start(die_with_parent=True)

    def through_proxy(self, name: str, info: ConnectionInfo) -> dict[str, Any]:
        """How the apply reaches what `info` reaches directly, on the master or the slave."""
        return {**info.to_dict(), "port": self.proxies[name].port}

    @property
    def redis_url(self) -> str:
        """Through the proxy."""
        parts = urlsplit(self.redis.url)
        place = parts.netloc.replace(f":{parts.port}", f":{self.proxies['redis'].port}")
        return urlunsplit(parts._replace(netloc=place))
