"""Comments on tables and their columns."""

from collections.abc import Sequence

from sluice import sql_files
from sluice.database.schema import Comment
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import literal, quoted


def read(connection: Session, tables: Sequence[TableName]) -> list[Comment]:
    """Raises psycopg's errors."""
    rows = connection.execute(sql_files.render("postgres", "table_comments"), catalog.pairs(tables)).fetchall()
    return [Comment(TableName(schema, name), column, text) for schema, name, column, text in rows]


def statement(table: TableName, column: str, text: str | None) -> str:
    """Gives the table, or its column, this comment; None: it has none any more."""
    name = quoted(table.schema, table.name)
    subject = f"COLUMN {name}.{quoted(column)}" if column else f"TABLE {name}"
    return f"COMMENT ON {subject} IS {'NULL' if text is None else literal(text)}"
