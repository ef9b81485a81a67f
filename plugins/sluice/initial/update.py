"""One initial update: which master, which slave, and by which name it is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from sluice import vendors
from sluice.config import InitialOptions, Replication, SlaveConfig
from sluice.domain.connection import ConnectionInfo
from sluice.domain.names import Prefix
from sluice.errors import Terminal


class ConnectionNotGiven(Terminal):
    """The caller handed over no connection of that name."""

    def __init__(self, conn_id: str):
        super().__init__(f"Connection {conn_id!r} is not known here. Add it to Airflow (Admin, Connections).")
        self.conn_id = conn_id


@dataclass(frozen=True)
class Update:
    """What every step of an initial update is told. It travels to Spark's executors, passwords included."""

    replication: Replication
    slave: SlaveConfig
    master_info: ConnectionInfo
    slave_info: ConnectionInfo
    update_id: str
    """Names this update: a step that is run again with the same id goes on where it was, another id waits its turn."""

    @classmethod
    def of(
        cls, replication: Replication, slave: str, connections: Mapping[str, ConnectionInfo], update_id: str
    ) -> "Update":
        """Raises `UnknownSlave` of the configuration and `ConnectionNotGiven`."""
        config = replication.slave(slave)
        for conn_id in (replication.master.conn_id, config.conn_id):
            if conn_id not in connections:
                raise ConnectionNotGiven(conn_id)
        return cls(replication, config, connections[replication.master.conn_id], connections[config.conn_id], update_id)

    @property
    def prefix(self) -> Prefix:
        return self.replication.prefix

    @property
    def options(self) -> InitialOptions:
        return self.replication.initial

    @property
    def application(self) -> str:
        """Shown in `pg_stat_activity` of both databases by the steps."""
        return f"sluice initial update {self.prefix} {self.slave.name}"

    @property
    def loader_application(self) -> str:
        """The same for the sessions that read and write blocks."""
        return f"sluice load {self.prefix} {self.slave.name}"[:63]

    def connect_master(self, application: str | None = None) -> Connection[Any]:
        """An autocommit connection to the master. Raises `DatabaseUnreachable`, `DatabaseRefused`."""
        return self._connect(self.master_info, application)

    def connect_slave(self, application: str | None = None) -> Connection[Any]:
        """An autocommit connection to the slave. Raises `DatabaseUnreachable`, `DatabaseRefused`."""
        return self._connect(self.slave_info, application)

    def _connect(self, info: ConnectionInfo, application: str | None) -> Connection[Any]:
        module = vendors.module(info.vendor, "connection")
        settings = {
            # Whatever the role has: claims must not fail to serialize, and a protected slave must be written to.
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "off",
            # Rows that a policy hides would silently be missing: an error instead.
            "row_security": "off",
        }
        session: Connection[Any] = module.connect(
            info, application=application or self.application, autocommit=True, settings=settings
        )
        return session

    def __str__(self) -> str:
        return f"{self.prefix} → {self.slave.name}"
