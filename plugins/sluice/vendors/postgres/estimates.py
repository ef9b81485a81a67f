"""How large a PostgreSQL table is, from statistics."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluice import sql_files
from sluice.database.session import Session
from sluice.domain.names import TableName
from sluice.vendors.postgres import catalog


@dataclass(frozen=True)
class Estimate:
    """Rows (None: the table was never analysed) and bytes, both as of the last statistics."""

    rows: int | None
    bytes: int


def read(connection: Session, tables: Sequence[TableName]) -> dict[TableName, Estimate]:
    """One entry for each of `tables` that exists. Raises psycopg's errors."""
    rows = connection.execute(
        sql_files.render("postgres", "estimates"),
        catalog.pairs(tables),
    ).fetchall()
    return {TableName(schema, name): Estimate(count, size) for schema, name, count, size in rows}
