"""The short transaction in which one block is read from a PostgreSQL master."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import psycopg

from sluice import sql_files
from sluice.database.rows import SnapshotGone, TableGone
from sluice.database.session import Session
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.shape import TableShape
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import literal, native
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source import position

LOCK_TIMEOUT = "3s"
"""How long reading waits in line behind DDL that itself waits for the application."""


@dataclass(frozen=True)
class Snapshot:
    """What a block is read at: the marker, and the table as it was then."""

    marker: Position
    shape: TableShape
    connection: Session
    locked: bool = False
    """Whether its rows are to be locked."""

    def end(self) -> None:
        """All rows were taken: the transaction ends, with the locks it holds."""
        if self.open:
            self.connection.execute("COMMIT")

    @property
    def open(self) -> bool:
        return native(self.connection).info.transaction_status != psycopg.pq.TransactionStatus.IDLE


@contextmanager
def reading(
    connection: Session,
    table: TableShape,
    prefix: Prefix,
    schema: str,
    lock_seconds: float | None = None,
) -> Iterator[Snapshot]:
    """A REPEATABLE READ transaction on an autocommit connection, its position taken with its snapshot.

    `lock_seconds`: it may lock rows (`SELECT … FOR SHARE`), and no statement of it waits or holds them longer.
    The table is locked before the snapshot is taken, as weakly as any SELECT does: otherwise a
    TRUNCATE or a rewriting ALTER TABLE could commit in between, and to a snapshot older than it
    the table looks empty, although its marker does not cover the change. After an error inside,
    the connection may be in the middle of a COPY: close it. Raises psycopg's errors, `TableGone`.
    """
    connection.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ {'READ ONLY' if lock_seconds is None else ''}".encode())
    _lock_table(connection, table, lock_seconds)
    marker = position.take(connection, prefix, schema)
    shape = catalog.shape(connection, table.table)
    assert shape is not None, "a locked table is there"
    seen = Snapshot(marker, shape, connection, locked=lock_seconds is not None)
    yield seen
    seen.end()


@contextmanager
def reading_exported(connection: Session, table: TableShape, exported: str, marker: Position) -> Iterator[Snapshot]:
    """The same in the snapshot `exported`, whose position is `marker`.

    Raises `SnapshotGone` as well: rows of a table that was emptied, rewritten or altered since are not what that
    snapshot saw. Columns that were only added do not matter: the rows are read without them.
    """
    try:
        begin(connection, exported)
    except (
        psycopg.errors.UndefinedObject,
        psycopg.errors.InvalidParameterValue,
        psycopg.errors.ObjectNotInPrerequisiteState,
    ) as error:
        raise SnapshotGone(f"the snapshot {exported} is held no longer") from error
    try:
        _lock_table(connection, table, None)
    except TableGone as gone:
        raise SnapshotGone(f"{table.table} was dropped or renamed since") from gone
    # By SQL the catalogues show what they held in the snapshot.
    shape = catalog.shape(connection, table.table)
    # Never prepared: a plan that was kept would refuse to give other columns than it knew.
    now = (
        native(connection).execute(f"SELECT * FROM {catalog.only(table)} LIMIT 0".encode(), prepare=False).description
        or []
    )
    if shape is None or not whole(connection, table.table):
        raise SnapshotGone(f"{table.table} was emptied, rewritten or replaced since")
    if [column.name for column in shape.columns] != [column.name for column in now][: len(shape.columns)]:
        raise SnapshotGone(f"columns of {table.table} were dropped or renamed since")
    seen = Snapshot(marker, shape, connection)
    yield seen
    seen.end()


def _lock_table(connection: Session, table: TableShape, seconds: float | None) -> None:
    """Before the transaction's snapshot is taken: neither SET nor LOCK TABLE takes it."""
    connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")
    timeout = LOCK_TIMEOUT
    if seconds is not None:
        milliseconds = max(1, round(1000 * seconds))
        timeout = f"{milliseconds}ms"
        for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
            connection.execute(f"SET LOCAL {name} = {milliseconds}".encode())
        # A client that hangs while rows are sent to it keeps the locks beyond the statement's time-out.
        connection.execute(f"SET LOCAL tcp_user_timeout = {2 * milliseconds}".encode())
        if native(connection).info.server_version >= 170000:
            connection.execute(f"SET LOCAL transaction_timeout = {2 * milliseconds}".encode())
    try:
        lock(connection, table, timeout)
    except psycopg.errors.UndefinedTable as error:
        raise TableGone(native(connection).info.host, table) from error


def lock(connection: Session, table: TableShape, timeout: str = LOCK_TIMEOUT) -> None:
    """Locks the table as weakly as any SELECT does. Raises psycopg's `LockNotAvailable`, `UndefinedTable`."""
    connection.execute(f"SET LOCAL lock_timeout = '{timeout}'")
    connection.execute(f"LOCK TABLE {catalog.only(table)} IN ACCESS SHARE MODE".encode())


def whole(connection: Session, table: TableName) -> bool:
    """Whether the table still holds what the transaction's snapshot saw of it: it was not emptied, rewritten or
    replaced since, and has the same partitions. Good for the rest of the transaction once the table is locked.
    """
    row = connection.execute(
        sql_files.render("postgres", "snapshot_whole"), {"schema": table.schema, "name": table.name}
    ).fetchone()
    return bool(row and row[0])


def begin(connection: Session, exported: str | None = None) -> None:
    """A read-only REPEATABLE READ transaction on an autocommit connection; it sees what the snapshot `exported` saw.

    Raises psycopg's errors: `UndefinedObject` or `InvalidParameterValue` when that snapshot is held no longer.
    """
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    # A policy that hides rows from this account is an error, and never a difference.
    connection.execute("SET LOCAL row_security = off")
    if exported is not None:
        connection.execute(f"SET TRANSACTION SNAPSHOT {literal(exported)}".encode())


def export(connection: Session) -> str:
    """Names the transaction's snapshot; others may `begin` with it as long as this transaction lasts."""
    row = connection.execute("SELECT pg_export_snapshot()").fetchone()
    assert row is not None
    return str(row[0])


def position_of(
    connection: Session, prefix: Prefix, schema: str, earlier: Position, previous: Position | None
) -> Position:
    """The position of the snapshot of a transaction just begun on the master, good as the end of a window and the
    beginning of the next.

    `earlier`: a position taken before the transaction began; its sequence values bound what follows, because those
    read inside the transaction were read after the snapshot. `previous`: what the window begins with; None where
    nothing was applied before.
    """
    taken, first = position.take(connection, prefix, schema), SnapshotPosition.of(earlier)
    return replace(taken, low=first.low, next=first.next).after(previous)
