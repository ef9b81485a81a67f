"""One initial update: which master, which slave, and by which name it is known."""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from sluice import vendors
from sluice.config import InitialOptions
from sluice.domain.connection import ConnectionInfo
from sluice.pair import Pair


@dataclass(frozen=True)
class Update(Pair):
    """What every step of an initial update is told. It travels to Spark's executors, passwords included."""

    update_id: str
    """Names this update: a step that is run again with the same id goes on where it was, another id waits its turn."""

    @classmethod
    def named(cls, pair: Pair, update_id: str) -> "Update":
        return cls(pair.replication, pair.slave, pair.master_info, pair.slave_info, update_id)

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
