"""How large a PostgreSQL table is, from statistics."""

from collections.abc import Sequence

from sluice import sql_files
from sluice.database.rows import Estimate
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog


def read(connection: Session, tables: Sequence[TableName]) -> dict[TableName, Estimate]:
    """One entry for each of `tables` that exists. Raises psycopg's errors."""
    rows = connection.execute(
        sql_files.render("postgres", "estimates"),
        catalog.pairs(tables),
    ).fetchall()
    return {TableName(schema, name): Estimate(count, size) for schema, name, count, size in rows}
