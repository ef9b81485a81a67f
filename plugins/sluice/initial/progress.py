"""How far an initial update is: from BLOCKS and statistics, never from counting rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg import Connection

from sluice import vendors
from sluice.domain.names import TableName
from sluice.domain.restraint import Restraint
from sluice.domain.state import SlaveState
from sluice.initial.owner import owner_of
from sluice.initial.throttle import rate_of
from sluice.initial.update import Update

RATE_SECONDS = 10.0


@dataclass(frozen=True)
class TableState:
    """One table of a load."""

    table: TableName
    planned: int
    begun: int
    stored: int
    rows: int
    """Rows stored."""
    bytes: int
    rows_per_second: float
    estimate: int | None
    """Rows on the master by its statistics; None where there are none."""
    exported: int = 0
    """Blocks in files that the slave does not have yet."""

    @property
    def state(self) -> str:
        """`waiting`, `loading`, `exported` or `stored`."""
        if self.planned == self.begun == 0:
            return "exported" if self.exported else "stored"
        return "loading" if self.begun or self.stored or self.exported else "waiting"

    @property
    def expected(self) -> int | None:
        """Rows it will have had, as far as can be told: statistics lag behind."""
        if self.state in ("stored", "exported"):
            return self.rows
        return None if self.estimate is None else max(self.estimate, self.rows)


@dataclass(frozen=True)
class Progress:
    """A load at one moment."""

    state: SlaveState
    message: str
    tables: tuple[TableState, ...]
    held: Restraint = field(default_factory=Restraint)
    """What its load is held to just now."""

    @property
    def stored_tables(self) -> int:
        return sum(table.state in ("stored", "exported") for table in self.tables)

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    @property
    def bytes(self) -> int:
        return sum(table.bytes for table in self.tables)

    @property
    def rows_per_second(self) -> float:
        return sum(table.rows_per_second for table in self.tables)

    @property
    def expected(self) -> int | None:
        """Rows of all tables; None while a table has no statistics."""
        counts = [table.expected for table in self.tables]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def seconds_left(self) -> float | None:
        """At the present rate; None when it cannot be told."""
        if self.expected is None or not self.rows_per_second:
            return None
        return (self.expected - self.rows) / self.rows_per_second

    def __str__(self) -> str:
        share = f" of about {self.expected:,}" if self.expected else ""
        left = f", about {self.seconds_left:,.0f} s left" if self.seconds_left else ""
        loading = [str(table.table) for table in self.tables if table.state == "loading"][:3]
        now = f", now {', '.join(loading)}" if loading else ""
        tables = f"{self.stored_tables} of {len(self.tables)} tables"
        size = f"{self.rows:,} rows{share}, {self.bytes / 1e6:,.1f} MB"
        if exported := sum(table.exported for table in self.tables):
            size += f", {exported} blocks in files"
        held = f"; paused: {self.held.reason}" if self.held.paused else ""
        rate = f" ({allowed})" if (allowed := rate_of(self.held)) else ""
        return f"{tables}, {size}, {self.rows_per_second:,.0f} rows/s{rate}{left}{now}{held}"


def estimates(update: Update, tables: list[TableName]) -> dict[TableName, int | None]:
    """Rows of the master's tables by its statistics. Raises `Transient` for outages."""
    connection = update.connect_master()
    try:
        module = vendors.module(update.master_info.vendor, "estimates")
        with vendors.module(update.master_info.vendor, "connection").classified(update.master_info):
            return {table: found.rows for table, found in module.read(connection, tables).items()}
    finally:
        connection.close()


def progress(
    update: Update,
    slave: Connection[Any] | None = None,
    expected: Mapping[TableName, int | None] | None = None,
) -> Progress:
    """How far the load of the slave is, whichever update it belongs to.

    `slave`: an open connection to use; `expected`: what `estimates` said, asked for when None.
    Raises `Transient` for outages.
    """
    connection = slave or update.connect_slave()
    try:
        with vendors.module(update.slave_info.vendor, "connection").classified(update.slave_info):
            owner = owner_of(update, connection)
            module = vendors.module(update.slave_info.vendor, "blocks")
            store = module.BlockStore(connection, update.prefix, update.slave.schema, update.slave.name)
            found = store.progress(RATE_SECONDS)
            held = _held(update, connection)
    finally:
        if slave is None:
            connection.close()
    if expected is None:
        expected = estimates(update, [entry.table for entry in found])
    return Progress(
        owner.state if owner else SlaveState.UNCONFIGURED,
        owner.message if owner else "",
        tuple(
            TableState(
                entry.table,
                entry.planned,
                entry.begun,
                entry.stored,
                entry.rows,
                entry.bytes,
                entry.rows_per_second,
                expected.get(entry.table),
                entry.exported,
            )
            for entry in found
        ),
        held,
    )


def _held(update: Update, slave: Connection[Any]) -> Restraint:
    module = vendors.module(update.slave_info.vendor, "throttle")
    store = module.ThrottleStore(slave, update.prefix, update.slave.schema, update.slave.name)
    held: Restraint = store.read()
    return held
