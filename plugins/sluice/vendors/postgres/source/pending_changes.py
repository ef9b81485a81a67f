"""Reads changes that wait in ITEMS on a PostgreSQL master: of one table, or of the first transaction."""

from collections.abc import Collection

from sluice import sql_files
from sluice.database.changes import WaitingChange, WaitingTable
from sluice.database.session import Session
from sluice.model.names import Prefix, TableName
from sluice.model.window import Window
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.source.window_condition import Condition


def read(
    connection: Session,
    prefix: Prefix,
    schema: str,
    window: Window,
    table: TableName,
    most: int,
) -> list[WaitingChange]:
    """The first `most` changes of `table` in the window, in order, as the connection's transaction sees them."""
    only = _of(table)
    condition = Condition.of(window, only).sql
    names = {"prefix": prefix.lower, "schema": quoted(schema)}
    statement = sql_files.render("postgres", "queue_items", window=condition, old="true", largest=str(2**62), **names)
    chosen = f"SELECT action, content, oldcontent FROM ({statement}) AS s ORDER BY repl_key LIMIT {most}"
    return connection.execute(chosen.encode()).fetchall()


def first_transaction(
    connection: Session, prefix: Prefix, schema: str, window: Window, left_out: Collection[TableName]
) -> list[WaitingTable]:
    """What the first transaction changes that changes a table not `left_out`; empty if there is none."""
    applied = " AND ".join(f"NOT ({_of(table)})" for table in sorted(left_out)) or "true"
    names = {"prefix": prefix.lower, "schema": quoted(schema)}
    statement = sql_files.render("postgres", "queue_first", window=Condition.of(window).sql, applied=applied, **names)
    rows = connection.execute(statement.encode()).fetchall()
    return [WaitingTable(TableName(place, name), changes, tuple(actions)) for place, name, changes, actions in rows]


def _of(table: TableName) -> str:
    return f"db_schema = {literal(table.schema)} AND tablename = {literal(table.name)}"
