"""Functions of tables' owners that PostgreSQL would run with the rights of whoever only plans a query of the tables."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sluice import sql_files
from sluice.database.rows import TableRefused
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import PostgresSession

WHERE_CALLED = "an index, check, statistics object, policy, partition key, domain or range"
REMEDY = (
    "Drop what calls it, let an administrator own the function, or say allow_owner_code: true for the master if you "
    "trust this owner."
)


class Call(NamedTuple):
    """All names are quoted; `function` is a signature."""

    table: str
    function: str
    owner: str


class OwnerCode(TableRefused):
    """A table is not read, because that could run a function of its owner."""

    def __init__(self, server: str, table: TableName, call: Call | None):
        why = (
            "something else than a table has its name, which could run functions of its owner"
            if call is None
            else f"{WHERE_CALLED} of it calls {call.function} of {call.owner}, which would run"
        )
        remedy = "" if call is None else f" {REMEDY}"
        super().__init__(
            table,
            f"{server}: {table} is not read: {why} with the rights of this account.{remedy} Then load the table, if it "
            "was being loaded.",
        )


def calls(connection: Session, tables: Sequence[TableName]) -> list[Call]:
    """Those of `tables` and of their partitions, as of the transaction's snapshot."""
    return [Call(*row) for row in _found(connection, tables) if row[1] is not None]


def expect_none(connection: Session, table: TableName) -> None:
    """Raises `OwnerCode`, unless the session may trust the owners. Costs a query of the catalogue."""
    if isinstance(connection, PostgresSession) and not connection.trusts_owners:
        for name, function, owner in _found(connection, [table]):
            raise OwnerCode(connection.server, table, Call(name, function, owner) if function else None)


def lock(connection: Session, table: TableShape) -> None:
    """Locks the table, as weakly as by a SELECT, before it is read: until the transaction ends, its name means what was
    looked at. Raises psycopg's errors, `OwnerCode`."""
    connection.execute(f"LOCK TABLE {catalog.only(table)} IN ACCESS SHARE MODE".encode())
    expect_none(connection, table.table)


@contextmanager
def reading(connection: Session, table: TableShape) -> Iterator[None]:
    """A transaction that reads rows of the table. Raises psycopg's errors, `OwnerCode`."""
    with connection.transaction():
        lock(connection, table)
        yield


def _found(connection: Session, tables: Sequence[TableName]) -> list[tuple[str, str, str]]:
    return connection.execute(sql_files.render("postgres", "owner_code"), catalog.pairs(tables)).fetchall()
