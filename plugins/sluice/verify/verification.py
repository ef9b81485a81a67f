"""What a verification works on: one replication, one of its slaves, how to reach both."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluice.config import Replication, SlaveConfig
from sluice.domain.connection import ConnectionInfo
from sluice.errors import SluiceError, Terminal


class CouldNotCompare(SluiceError):
    """The comparison came to no result; it says nothing about the data. `again`: another try may succeed at once."""

    def __init__(self, reason: str, *, again: bool = False):
        super().__init__(reason)
        self.again = again


class ConnectionNotGiven(Terminal):
    """The caller handed over no connection of that name."""

    def __init__(self, conn_id: str):
        super().__init__(f"Connection {conn_id!r} is not known here. Add it to Airflow (Admin, Connections).")
        self.conn_id = conn_id


@dataclass(frozen=True)
class Verification:
    """One pair. Passwords are in it; never log it whole."""

    replication: Replication
    slave: SlaveConfig
    master_info: ConnectionInfo
    slave_info: ConnectionInfo

    @classmethod
    def of(cls, replication: Replication, slave: str, connections: Mapping[str, ConnectionInfo]) -> "Verification":
        """Raises `UnknownSlave` of the configuration and `ConnectionNotGiven`."""
        config = replication.slave(slave)
        for conn_id in (replication.master.conn_id, config.conn_id):
            if conn_id not in connections:
                raise ConnectionNotGiven(conn_id)
        return cls(replication, config, connections[replication.master.conn_id], connections[config.conn_id])

    @property
    def application(self) -> str:
        """Shown in `pg_stat_activity` of both databases."""
        return f"sluice {self.replication.prefix} {self.slave.name} verify"

    def __str__(self) -> str:
        return f"{self.replication.prefix} → {self.slave.name}"
