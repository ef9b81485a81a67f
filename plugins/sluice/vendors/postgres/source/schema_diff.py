"""Finds changes of structure on a PostgreSQL master that no event trigger reports, by comparison."""

from collections.abc import Sequence

from psycopg.errors import UndefinedFunction

from sluice import sql_files
from sluice.database.errors import LockNotAvailable
from sluice.database.session import Session
from sluice.model import table_definition
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.shape import TableShape
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source.resources import require


def check(connection: Session, prefix: Prefix, schema: str) -> list[TableName]:
    """Compares the replicated tables with their recorded definitions and queues a DDL item for each change.

    Also tells of tables whose rows may change without a trigger that sees it. Returns those that have changed. One
    transaction for each table, on a connection in autocommit, so that no table is locked while another one is waited
    for. A table that is locked, or that its owner keeps from being compared, is left out. Raises `ResourcesOutdated`,
    psycopg's errors.
    """
    changed, alone, notes, unseen = (
        quoted(schema, prefix.lower + name)
        for name in ("structure_changed", "check_alone", "forget_notes", "tell_unseen")
    )
    try:
        connection.execute(f"SELECT {notes}(), {unseen}()".encode())
    except UndefinedFunction:
        require(connection, prefix, schema)  # after an upgrade of Sluice it says what to run
        raise
    tables = connection.execute(f"SELECT schemaname, tablename FROM {changed}()".encode()).fetchall()
    found = []
    for table in tables:
        row = connection.execute(f"SELECT {alone}(%s, %s)".encode(), table).fetchone()
        if row is not None and row[0]:
            found.append(TableName(*table))
    return found


def compare(connection: Session, prefix: Prefix, schema: str) -> list[TableName]:
    """As `check`, but returns none where writers or DDL hold the locks that it needs."""
    try:
        return check(connection, prefix, schema)
    except LockNotAvailable:
        return []


def digest(connection: Session, prefix: Prefix, schema: str) -> str:
    """A digest that changes when definitions should be compared; takes some 25 to 80 ms for 1,000 tables.

    Raises psycopg's errors.
    """
    text = sql_files.render("postgres", "definitions_digest", prefix=prefix.lower, schema=quoted(schema))
    row = connection.execute(text).fetchone()
    return str(row[0]) if row else ""


def former(
    connection: Session,
    prefix: Prefix,
    schema: str,
    tables: Sequence[TableName],
    seen: Position,
    above: int,
) -> dict[TableName, str | None]:
    """Those of `tables` whose definition changes after `seen`, above the REPL_KEY `above` → the former definition."""
    begins = SnapshotPosition.of(seen)
    rows = connection.execute(
        sql_files.render("postgres", "queue_definitions", prefix=prefix.lower, schema=quoted(schema)),
        {
            "schemas": [table.schema for table in tables],
            "names": [table.name for table in tables],
            "floor": max(above, begins.floor_of_all()),
            "snapshot": begins.snapshot,
        },
    ).fetchall()
    return {TableName(schema, name): text for schema, name, text in rows}


def definitions(
    connection: Session,
    prefix: Prefix,
    schema: str,
    tables: Sequence[TableName],
    seen: Position,
    above: int,
) -> dict[TableName, TableShape]:
    """For each of `tables` the definition at its next change after `seen`, above the REPL_KEY `above`."""
    # The catalogue is read first: the second statement finds a definition that changes in between.
    shapes = catalog.shapes(connection, tables)
    for table, text in former(connection, prefix, schema, tables, seen, above).items():
        if text is not None:
            shapes[table] = table_definition.parse(text).shape
    return shapes


def has_event_triggers(connection: Session, prefix: Prefix, schema: str) -> bool:
    """Whether event triggers of this installation exist and are enabled; False where nothing is installed."""
    function = f"{quoted(schema, f'{prefix.lower}has_event_triggers')}()"
    row = connection.execute("SELECT to_regprocedure(%s) IS NOT NULL", [function]).fetchone()
    if row is None or not row[0]:
        return False
    row = connection.execute(f"SELECT {function}".encode()).fetchone()
    return row is not None and bool(row[0])


def values_follow(connection: Session, prefix: Prefix, schema: str, table: TableName) -> bool:
    """See `sluice.database.changes.ChangeSource`."""
    text = sql_files.render("postgres", "values_follow", prefix=prefix.lower, schema=quoted(schema))
    row = connection.execute(text, {"schema": table.schema, "table": table.name}).fetchone()
    return row is not None and bool(row[0])


def reports(connection: Session, prefix: Prefix, schema: str) -> bool:
    """Whether event triggers report DDL, and no table waits for the comparison to renew its capture functions."""
    if not has_event_triggers(connection, prefix, schema):
        return False
    captures = quoted(schema, f"{prefix.lower}captures")
    row = connection.execute(
        f"SELECT EXISTS (SELECT FROM {captures} WHERE CASE mode WHEN 'dropped' THEN functions <> '{{}}' "
        "ELSE fingerprint = '' AND triggers <> '{}' END)".encode()
    ).fetchone()
    return row is not None and not row[0]
