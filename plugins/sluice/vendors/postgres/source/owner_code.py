"""Functions of tables' owners that PostgreSQL would run with the rights of whoever only plans a query of the tables."""

from collections.abc import Sequence
from typing import NamedTuple

from sluice import sql_files
from sluice.database.rows import TableRefused
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import PostgresSession

WHERE_CALLED = "an index, check, statistics object, policy, partition key or domain"
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

    def __init__(self, place: str, table: TableName, call: Call):
        super().__init__(
            table,
            f"{place}: {table} is not read: {WHERE_CALLED} of it calls {call.function} of {call.owner}, which would "
            f"run with the rights of this account. {REMEDY} Then load the table, if it was being loaded.",
        )


def calls(connection: Session, tables: Sequence[TableName]) -> list[Call]:
    """Those of `tables` and of their partitions, as of the transaction's snapshot."""
    statement = sql_files.render("postgres", "owner_code")
    return [Call(*row) for row in connection.execute(statement, catalog.pairs(tables)).fetchall()]


def expect_none(connection: Session, table: TableName) -> None:
    """Raises `OwnerCode`, unless the session may trust the owners. Costs a query of the catalogue."""
    if isinstance(connection, PostgresSession) and not connection.trusts_owners:
        for call in calls(connection, [table]):
            raise OwnerCode(connection.place, table, call)
