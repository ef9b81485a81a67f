"""Changes of one table that wait in ITEMS on a PostgreSQL master, as the transaction of a comparison sees them."""

from sluice import sql_files
from sluice.database.changes import WaitingChange
from sluice.database.session import Session
from sluice.model.names import Prefix, TableName
from sluice.model.window import Window
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.source.queue import Condition


def read(
    connection: Session,
    prefix: Prefix,
    schema: str,
    window: Window,
    table: TableName,
    most: int,
) -> list[WaitingChange]:
    """The changes of `table` in the window, in order; `most` of them. Raises psycopg's errors."""
    only = f"db_schema = {literal(table.schema)} AND tablename = {literal(table.name)}"
    condition = Condition.of(window, only).sql
    names = {"prefix": prefix.lower, "schema": quoted(schema)}
    statement = sql_files.render("postgres", "queue_items", window=condition, old="true", **names)
    chosen = f"SELECT action, content, oldcontent FROM ({statement}) AS s ORDER BY repl_key LIMIT {most}"
    return connection.execute(chosen.encode()).fetchall()
