"""The short transaction in which one block is read from a PostgreSQL master."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from sluice.domain.names import Prefix
from sluice.domain.position import Position
from sluice.domain.shape import TableShape
from sluice.errors import Transient
from sluice.vendors.postgres import catalog, position
from sluice.vendors.postgres.connection import literal, quoted

LOCK_TIMEOUT = "3s"
"""How long reading waits in line behind DDL that itself waits for the application."""


class TableGone(Transient):
    """The table does not exist on the master (any more)."""

    def __init__(self, place: str, shape: TableShape):
        super().__init__(
            f"{place}: table {shape.table} is gone. Its DROP will reach the slave; if it was renamed, run the DAG "
            "reconcile_tables and start a new initial update."
        )
        self.table = shape.table


@dataclass(frozen=True)
class Snapshot:
    """What a block is read at: the marker, and the table as it was then."""

    marker: Position
    shape: TableShape


@contextmanager
def reading(connection: psycopg.Connection[Any], table: TableShape, prefix: Prefix, schema: str) -> Iterator[Snapshot]:
    """A REPEATABLE READ transaction on an autocommit connection, its position taken with its snapshot.

    The table is locked before the snapshot is taken, as weakly as any SELECT does: otherwise a
    TRUNCATE or a rewriting ALTER TABLE could commit in between, and to a snapshot older than it
    the table looks empty, although its marker does not cover the change. After an error inside,
    the connection may be in the middle of a COPY: close it. Raises psycopg's errors, `TableGone`.
    """
    name = quoted(table.table.schema, table.table.name)
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    # Neither SET nor LOCK TABLE takes a snapshot; taking the position does.
    connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")
    try:
        connection.execute(f"LOCK TABLE {'' if table.partitioned else 'ONLY '}{name} IN ACCESS SHARE MODE".encode())
    except psycopg.errors.UndefinedTable as error:
        raise TableGone(connection.info.host, table) from error
    marker = position.take(connection, prefix, schema)
    shape = catalog.shape(connection, table.table)
    assert shape is not None, "a locked table is there"
    yield Snapshot(marker, shape)
    connection.execute("COMMIT")


def begin(connection: psycopg.Connection[Any], exported: str | None = None) -> None:
    """A read-only REPEATABLE READ transaction on an autocommit connection; it sees what the snapshot `exported` saw.

    Raises psycopg's errors: `UndefinedObject` or `InvalidParameterValue` when that snapshot is held no longer.
    """
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    # A policy that hides rows from this account is an error, and never a difference.
    connection.execute("SET LOCAL row_security = off")
    if exported is not None:
        connection.execute(f"SET TRANSACTION SNAPSHOT {literal(exported)}".encode())


def export(connection: psycopg.Connection[Any]) -> str:
    """Names the transaction's snapshot; others may `begin` with it as long as this transaction lasts."""
    row = connection.execute("SELECT pg_export_snapshot()").fetchone()
    assert row is not None
    return str(row[0])


def position_of(
    connection: psycopg.Connection[Any], prefix: Prefix, schema: str, earlier: Position, previous: Position
) -> Position:
    """The position of the snapshot of a transaction just begun on the master, good as the end of a window and the
    beginning of the next.

    `earlier`: a position taken before the transaction began; its sequence values bound what follows, because those
    read inside the transaction were read after the snapshot. `previous`: what the window begins with.
    """
    taken = position.take(connection, prefix, schema)
    return replace(taken, low=earlier.low, next=earlier.next).after(previous)
