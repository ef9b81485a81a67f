"""A pair: one master's prefix and one slave, with the connections to both."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from sluice.configuration.model import Replication, SlaveConfig
from sluice.configuration.placement import Placement
from sluice.errors import SluiceError, Terminal, Transient
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.transformation import Transformation
from sluice.model.vendors import VENDORS, VendorEntry


class ConnectionNotGiven(Terminal):
    """The caller passed no connection of that name."""

    def __init__(self, conn_id: str):
        super().__init__(f"Connection {conn_id!r} is not known here. Add it to Airflow (Admin, Connections).")


class ConnectionsOutdated(Transient):
    """A process cannot connect any more to databases to which it was connected before.

    It got Airflow's connections when it started. A new process gets them as they are then: a person may have written
    another password or address there.
    """

    def __init__(self, subject: object, reason: SluiceError):
        super().__init__(f"{subject}: {reason} The job starts again with the connections as Airflow has them now.")


class OfSlave(Protocol):
    """A pair, or another object that knows a slave of a prefix."""

    @property
    def prefix(self) -> Prefix: ...

    @property
    def slave(self) -> SlaveConfig: ...

    @property
    def slave_info(self) -> ConnectionInfo: ...

    @property
    def placement(self) -> Placement: ...


@dataclass(frozen=True)
class Pair:
    """A prefix and a slave with their connections. It is sent to Spark's executors with passwords: never log it."""

    replication: Replication
    slave: SlaveConfig
    master_info: ConnectionInfo
    slave_info: ConnectionInfo
    rows_info: ConnectionInfo | None = field(default=None, kw_only=True)
    """The master's database for rows, if `master_info` is the stream of its log; None if the configuration has
    none."""

    @classmethod
    def of(cls, replication: Replication, slave: str, connections: Mapping[str, ConnectionInfo]) -> "Pair":
        """Raises `UnknownSlave` of the configuration and `ConnectionNotGiven`."""
        config = replication.slave(slave)
        mask = replication.verify.mask

        def given(conn_id: str) -> ConnectionInfo:
            if conn_id not in connections:
                raise ConnectionNotGiven(conn_id)
            return replace(connections[conn_id], mask=mask)

        slave_info = given(config.conn_id)
        slave_info = replace(slave_info, mask=replication.placement(config).patterns(mask))
        master, stream = replication.master, replication.master.stream
        trusts = master.allow_owner_code
        if stream is None:
            return Pair(replication, config, replace(given(master.conn_id), trusts_owners=trusts), slave_info)
        rows = replace(given(master.conn_id), stream=stream.database, trusts_owners=trusts) if master.conn_id else None
        return Pair(replication, config, stream, slave_info, rows_info=rows)

    def place_of_rows(self) -> ConnectionInfo:
        """The connection for the master's rows. Raises `names-differ`."""
        redo = self.replication.redo
        if self.rows_info is not None and redo is not None and not redo.exact_names:
            raise Terminal(
                f"{self}: rows are read under the master's names, and the changes have them in small letters. Write "
                "exact_names: true under redo and the tables as the master has them, capture into another location, "
                "then start an initial update.",
                code="names-differ",
            )
        return self.rows_info or self.master_info

    @property
    def beside_whole_log(self) -> bool:
        """Whether the master's rows are read beside a log that has all former values: its rows at any earlier position
        are known, and no snapshot of it can be passed on."""
        return self.rows_info is not None and self.replication.redo is None

    @property
    def prefix(self) -> Prefix:
        return self.replication.prefix

    @property
    def slave_vendor(self) -> VendorEntry:
        """What the slave's vendor is and can do."""
        return VENDORS[self.slave_info.vendor]

    @property
    def most_changes(self) -> int:
        """How many changes one transaction applies at most."""
        return self.slave.most_changes(self.replication.apply)

    @property
    def definitions_lock(self) -> str:
        """The lock of the slave under which indexes and constraints are made."""
        return f"sluice definitions {self.prefix} {self.slave.name}"

    def transformation(self, table: TableName) -> Transformation | None:
        """The transformation of a master's table for the slave; None if it has none."""
        return self.replication.transformation(table, self.slave)

    @cached_property
    def placement(self) -> Placement:
        """Names of the master's tables on the slave."""
        return self.replication.placement(self.slave)

    @property
    def transforms(self) -> bool:
        """Whether any table is transformed for the slave."""
        return any(rule.transformation is not None for rule in (*self.slave.tables, *self.replication.tables))

    @property
    def application(self) -> str:
        """The name of the sessions on both databases."""
        return f"sluice {self.prefix} {self.slave.name}"

    @property
    def update_application(self) -> str:
        """The name of the sessions of an initial update's steps."""
        return f"sluice initial update {self.prefix} {self.slave.name}"

    def __str__(self) -> str:
        return f"{self.prefix} → {self.slave.name}"
