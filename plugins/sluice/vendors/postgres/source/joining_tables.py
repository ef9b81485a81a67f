"""Tables that join a replication of a PostgreSQL master: which, and how many rows they have."""

from collections.abc import Sequence

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.joining import Rows
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.vendors.postgres import estimates
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.snapshot_position import SnapshotPosition

COUNTED = 10_000
"""The most rows that are counted; more are estimated."""


def pending(connection: Session, prefix: Prefix, schema: str, applied: Position) -> dict[TableName, bool]:
    """The tables that join after `applied` → whether all of their rows are in ITEMS. Raises psycopg's errors."""
    statement = sql_files.render("postgres", "queue_joining", prefix=prefix.lower, schema=quoted(schema))
    seen = SnapshotPosition.of(applied)
    rows = connection.execute(statement, {"floor": seen.floor_of_all(), "snapshot": seen.snapshot}).fetchall()
    return {TableName(table_schema, name): complete for table_schema, name, complete in rows}


def rows(connection: Session, tables: Sequence[TableName]) -> dict[TableName, Rows]:
    """How many rows each of `tables` has, counted up to `COUNTED`, otherwise estimated. Raises psycopg's errors."""
    sizes = estimates.read(connection, tables)
    counts = {}
    for table in tables:
        name = quoted(table.schema, table.name)
        counting = f"SELECT count(*) FROM (SELECT FROM {name} LIMIT {COUNTED + 1}) AS few"
        row = connection.execute(counting.encode()).fetchone()
        counted = int(row[0]) if row else 0
        estimated = sizes[table].rows if table in sizes else None
        counts[table] = Rows(counted, True) if counted <= COUNTED else Rows(max(counted, estimated or 0), False)
    return counts
