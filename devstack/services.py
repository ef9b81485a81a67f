"""The services of a stack with their settings, made from its blueprint."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, Protocol

from devstack.airflow import Airflow
from devstack.blueprint import Blueprint
from devstack.home import Home
from devstack.mariadb import LOGGED, MariaDBServer
from devstack.postgres import PostgresServer
from devstack.postgres_releases import NEWEST
from devstack.redis import RedisServer
from devstack.secret import write_private
from devstack.spark import NAME as SPARK
from devstack.spark import SparkServer
from sluice.model.connection import ConnectionInfo

MARKER = "SLUICE_STACK"
"""Environment variable of all processes of a stack. Its value is the home's path. Leftovers are found by it."""

DATABASE = ROLE = "demo"
"""An empty database on the master and on each slave, and its owner, a role without further privileges."""

POSTGRES = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "max_prepared_transactions": "50",
    "jit": "off",
}
MARIADB = "mariadb"
"""The name of the service and of the place."""
METADATA = {"max_connections": "100", "shared_buffers": "48MB", "jit": "off"}


class Program(Protocol):
    """The program of a service: a server or a component of Airflow."""

    @property
    def start_timeout(self) -> float: ...
    @property
    def stop_signals(self) -> tuple[tuple[int, float], ...]: ...
    @property
    def port(self) -> int | None: ...
    def prepare(self) -> None: ...
    def spawn(self, output: IO[bytes]) -> subprocess.Popen[bytes]: ...
    def is_ready(self) -> bool: ...


@dataclass(frozen=True)
class Service:
    """A program that the supervisor keeps running."""

    name: str
    program: Program
    tier: int
    """Services use those of lower tiers, and are stopped before them."""
    needs: tuple[str, ...] = ()
    """Services that must run before this one is started."""
    on_ready: Callable[[], None] = lambda: None
    """Called when the program is ready, before the service counts as running. Safe to repeat."""


class Services:
    """Handles of all parts of a stack. Making them starts nothing."""

    def __init__(self, home: Home, blueprint: Blueprint) -> None:
        self.home, self.blueprint = home, blueprint
        self.redis = RedisServer(home.redis, blueprint.ports.get("redis"), settings={"appendfsync": "everysec"})
        self.redis.port_option = "--redis-port PORT"
        release = blueprint.postgres
        self.master = self._postgres("master", "--master-port PORT", POSTGRES, release)
        self.slaves = {name: self._postgres(f"slave-{name}", None, POSTGRES, release) for name in blueprint.slaves}
        self.mariadb = MariaDBServer(home.mariadb, blueprint.ports.get(MARIADB), "MariaDB", self._mariadb_settings())
        self.mariadb.port_option = f"--port {MARIADB}=PORT"
        self.metadata = self._postgres("metadata", None, METADATA, NEWEST)
        self.spark = SparkServer(home.spark / "connect", blueprint.ports.get(SPARK), {MARKER: str(home.root)})
        self.airflow = Airflow(home.airflow, self.metadata, blueprint.ports.get("airflow"), self.exports())

    def all(self) -> list[Service]:
        """Returns the services in the order in which `status` shows them."""
        services = [Service("redis", self.redis, 0), self._database("master", self.master)]
        services += [self._database(f"slave-{name}", server) for name, server in self.slaves.items()]
        if self.blueprint.mariadb:
            databases = () if self.blueprint.mariadb_log else (DATABASE,)
            made = partial(self.mariadb.create_account, ROLE, *databases)
            services.append(Service(MARIADB, self.mariadb, 0, on_ready=made))
        if self.blueprint.airflow:
            services.append(Service(SPARK, self.spark, 0, on_ready=self.spark.warm_up))
            services.append(Service("metadata", self.metadata, 0, on_ready=self.airflow.migrate))
            for component in self.airflow.components():
                on_ready = self.register_connections if component.name == "api-server" else Service.on_ready
                services.append(Service(f"airflow-{component.name}", component, 1, ("metadata",), on_ready))
        return services

    def exports(self) -> dict[str, str]:
        """Returns the environment of Airflow, of its tasks and of the jobs that they start."""
        return {
            "SLUICE_HOME": str(self.home.root),
            "SLUICE_REPLICATIONS": os.pathsep.join(map(str, (self.home.replications, self.home.configuration))),
            "SLUICE_REDIS_URL": self.redis.url,
            "SPARK_LOCAL_DIRS": str(self.home.spark),
            MARKER: str(self.home.root),
        }

    def connection(self, place: str) -> ConnectionInfo:
        """Returns how the replication reaches `master` or a slave, as the role without privileges."""
        return self.server(place).info(DATABASE, ROLE)

    def server(self, place: str) -> PostgresServer | MariaDBServer:
        """Returns the server of `master` or of a slave."""
        if place == MARIADB:
            return self.mariadb
        return self.master if place == "master" else self.slaves[place]

    @staticmethod
    def service_of(place: str) -> str:
        """Returns the service that runs `master` or a slave."""
        return place if place in ("master", MARIADB) else f"slave-{place}"

    @property
    def places(self) -> tuple[str, ...]:
        """The databases for which Airflow gets a connection `demo_<place>`."""
        return ("master", *self.slaves, *((MARIADB,) if self.blueprint.mariadb else ()))

    def register_connections(self) -> None:
        """Stores connections to master, slaves and Spark in Airflow, also when its metadata was lost. It leaves a
        person's later changes as they are."""
        wanted = {"spark_default": _spark_connection(self.spark)}
        for place in self.places:
            wanted[f"demo_{place}"] = _database_connection(f"demo_{place}", self.connection(place))
        file = self.home.airflow / "secrets" / "connections.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        api = self.airflow.api()
        present = {entry["connection_id"] for entry in api.get("connections", limit=1000)["connections"]}
        if missing := [entry for name, entry in wanted.items() if known.get(name) != entry or name not in present]:
            api.set_connections(missing)
            write_private(file, json.dumps(wanted))

    def _postgres(self, service: str, option: str | None, settings: dict[str, str], release: int) -> PostgresServer:
        port = self.blueprint.ports.get(service)
        durability = {} if self.blueprint.durable else {"fsync": "off"}
        name = f"PostgreSQL '{service}'"
        server = PostgresServer(self.home.postgres(service), port, name, settings | durability, release)
        server.port_option = option or f"--port {service}=PORT"
        return server

    def _mariadb_settings(self) -> dict[str, str]:
        durability = {} if self.blueprint.durable else {"innodb_flush_method": "nosync"}
        logged = LOGGED if self.blueprint.mariadb_log else {}
        return {"innodb_buffer_pool_size": "128M", "max_connections": "200", **durability, **logged}

    def _database(self, name: str, server: PostgresServer) -> Service:
        def on_ready() -> None:
            server.create_role(ROLE)
            server.create_database(DATABASE, owner=ROLE)

        return Service(name, server, 0, on_ready=on_ready)


def _database_connection(name: str, info: ConnectionInfo) -> dict[str, Any]:
    return {
        "connection_id": name,
        "conn_type": info.vendor,
        "description": "Made by ./sluice",
        "host": info.host,
        "port": info.port,
        "schema": info.database,
        "login": info.user,
        "password": info.password,
    }


def _spark_connection(server: SparkServer) -> dict[str, Any]:
    return {
        "connection_id": "spark_default",
        "conn_type": "spark_connect",
        "description": "Made by ./sluice",
        "host": "localhost",  # by this name Spark's client sends the token without TLS
        "port": server.port,
        "password": server.token,
        "extra": json.dumps({"pages": server.ui_url}),
    }


def mark_environment(home: Home) -> None:
    """Marks the processes that this process starts from now on as part of the stack."""
    os.environ[MARKER] = str(home.root)
