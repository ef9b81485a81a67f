"""A pair: one master's prefix and one slave, with all that is needed to reach both."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from sluice.config import Replication, SlaveConfig
from sluice.configuration.placement import Placement
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.transformation import Transformation


class ConnectionNotGiven(Terminal):
    """The caller handed over no connection of that name."""

    def __init__(self, conn_id: str):
        super().__init__(f"Connection {conn_id!r} is not known here. Add it to Airflow (Admin, Connections).")
        self.conn_id = conn_id


class NamesChanged(Terminal):
    """The master's rows have other names than the changes in the stream of its redo."""

    def __init__(self, pair: "Pair"):
        super().__init__(
            f"{pair}: rows are read under the master's names, and the changes have them in small letters. Write "
            "exact_names: true under redo and the tables as the master has them, capture into another location, then "
            "start an initial update."
        )


@dataclass(frozen=True)
class Pair:
    """What is worked on. It travels to Spark's executors, passwords included; never log it whole."""

    replication: Replication
    slave: SlaveConfig
    master_info: ConnectionInfo
    slave_info: ConnectionInfo
    rows_info: ConnectionInfo | None = field(default=None, kw_only=True)
    """The master's database, from which rows are read, where `master_info` is the stream of its redo; None where the
    configuration names none."""

    @classmethod
    def of(cls, replication: Replication, slave: str, connections: Mapping[str, ConnectionInfo]) -> "Pair":
        """Raises `UnknownSlave` of the configuration and `ConnectionNotGiven`."""
        config = replication.slave(slave)
        mask = replication.verify.mask

        def given(conn_id: str) -> ConnectionInfo:
            if conn_id not in connections:
                raise ConnectionNotGiven(conn_id)
            return replace(connections[conn_id], mask=mask)

        there = given(config.conn_id)
        there = replace(there, mask=replication.placement(config).patterns(mask))
        master, stream = replication.master, replication.master.stream
        if stream is None:
            return Pair(replication, config, given(master.conn_id), there)
        rows = replace(given(master.conn_id), stream=stream.database) if master.conn_id else None
        return Pair(replication, config, stream, there, rows_info=rows)

    def place_of_rows(self) -> ConnectionInfo:
        """Where the master's rows are read. Raises `NamesChanged`."""
        redo = self.replication.redo
        if self.rows_info is not None and redo is not None and not redo.exact_names:
            raise NamesChanged(self)
        return self.rows_info or self.master_info

    @property
    def prefix(self) -> Prefix:
        return self.replication.prefix

    def transformation(self, table: TableName) -> Transformation | None:
        """What the slave gets of a table of the master; None where it gets it as it is."""
        return self.replication.transformation(table, self.slave)

    @cached_property
    def placement(self) -> Placement:
        """Where the slave has the master's tables."""
        return self.replication.placement(self.slave)

    @property
    def transforms(self) -> bool:
        """Whether the slave gets any table otherwise than the master has it."""
        return any(rule.transformation is not None for rule in (*self.slave.tables, *self.replication.tables))

    @property
    def application(self) -> str:
        """Names the sessions on both databases."""
        return f"sluice {self.prefix} {self.slave.name}"

    @property
    def update_application(self) -> str:
        """The same, of the steps of an initial update."""
        return f"sluice initial update {self.prefix} {self.slave.name}"

    def __str__(self) -> str:
        return f"{self.prefix} → {self.slave.name}"
