"""The short transaction that reads one block from a PostgreSQL master (`PostgresQueue.reading`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from sluice import sql_files
from sluice.database.rows import SnapshotGone, TableGone
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.shape import TableShape
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import literal, native
from sluice.vendors.postgres.source import owner_code

LOCK_TIMEOUT = "3s"
"""How long reading waits behind DDL that itself waits for the application."""


@dataclass(frozen=True)
class Snapshot:
    """The transaction of a block: its marker, and the table's shape at that time."""

    marker: Position
    shape: TableShape
    connection: Session
    locked: bool = False
    """Whether its rows must be locked."""

    def end(self) -> None:
        """Ends the transaction and its locks, once all rows were read."""
        if self.open:
            self.connection.execute("COMMIT")

    @property
    def open(self) -> bool:
        return native(self.connection).info.transaction_status != psycopg.pq.TransactionStatus.IDLE


@contextmanager
def reading_exported(connection: Session, table: TableShape, exported: str, marker: Position) -> Iterator[Snapshot]:
    """As `PostgresQueue.reading`, in the snapshot `exported`, whose position is `marker`.

    Also raises `SnapshotGone` if the table was emptied, rewritten or altered since, because the rows are not those
    of that snapshot. The rows are read without columns that were added since.
    """
    owner_code.expect_none(connection, table.table)  # now: the snapshot may be older
    try:
        begin(connection, exported)
    except (
        psycopg.errors.UndefinedObject,
        psycopg.errors.InvalidParameterValue,
        psycopg.errors.ObjectNotInPrerequisiteState,
    ) as error:
        raise SnapshotGone(f"the snapshot {exported} is held no longer") from error
    try:
        lock_table(connection, table, None)
    except TableGone as gone:
        raise SnapshotGone(f"{table.table} was dropped or renamed since") from gone
    # Read by SQL, the catalog shows its state in the snapshot. Nothing is read of a view that has the name by now.
    shape = catalog.shape(connection, table.table)
    if shape is None or not whole(connection, table.table):
        raise SnapshotGone(f"{table.table} was emptied, rewritten or replaced since")
    # Never prepared: a cached plan fails if the columns have changed.
    now = (
        native(connection).execute(f"SELECT * FROM {catalog.only(table)} LIMIT 0".encode(), prepare=False).description
        or []
    )
    if [column.name for column in shape.columns] != [column.name for column in now][: len(shape.columns)]:
        raise SnapshotGone(f"columns of {table.table} were dropped or renamed since")
    seen = Snapshot(marker, shape, connection)
    yield seen
    seen.end()


def lock_table(connection: Session, table: TableShape, seconds: float | None) -> None:
    """Locks the table without taking the transaction's snapshot, which neither SET nor LOCK TABLE takes."""
    connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")
    timeout = LOCK_TIMEOUT
    if seconds is not None:
        milliseconds = max(1, round(1000 * seconds))
        timeout = f"{milliseconds}ms"
        for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
            connection.execute(f"SET LOCAL {name} = {milliseconds}".encode())
        # The statement's time-out does not end the sending of rows to a client that hangs.
        connection.execute(f"SET LOCAL tcp_user_timeout = {2 * milliseconds}".encode())
        if native(connection).info.server_version >= 170000:
            connection.execute(f"SET LOCAL transaction_timeout = {2 * milliseconds}".encode())
    try:
        lock(connection, table, timeout)
    except psycopg.errors.UndefinedTable as error:
        raise TableGone(native(connection).info.host, table) from error


def lock(connection: Session, table: TableShape, timeout: str = LOCK_TIMEOUT) -> None:
    """As `owner_code.lock`, waiting no longer than `timeout`. Raises psycopg's `LockNotAvailable`, `UndefinedTable`;
    `OwnerCode`."""
    connection.execute(f"SET LOCAL lock_timeout = '{timeout}'")
    owner_code.lock(connection, table)


def whole(connection: Session, table: TableName) -> bool:
    """Whether the table still has the rows of the transaction's snapshot.

    So it was not emptied, rewritten or replaced since, and has the same partitions. Once the table is locked, this
    stays true until the transaction ends.
    """
    row = connection.execute(
        sql_files.render("postgres", "snapshot_whole"), {"schema": table.schema, "name": table.name}
    ).fetchone()
    return bool(row and row[0])


def begin(connection: Session, exported: str | None = None) -> None:
    """Begins a read-only REPEATABLE READ transaction on an autocommit connection, in the snapshot `exported` if given.

    Raises psycopg's errors; `UndefinedObject` or `InvalidParameterValue` if that snapshot no longer exists.
    """
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    # A policy that hides rows from this account must raise an error, as the rows would look like differences.
    connection.execute("SET LOCAL row_security = off")
    if exported is not None:
        connection.execute(f"SET TRANSACTION SNAPSHOT {literal(exported)}".encode())


def export(connection: Session) -> str:
    """Exports the transaction's snapshot. Returns its name, valid in `begin` until this transaction ends."""
    row = connection.execute("SELECT pg_export_snapshot()").fetchone()
    assert row is not None
    return str(row[0])
