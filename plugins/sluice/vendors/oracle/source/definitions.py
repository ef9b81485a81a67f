"""Definitions of an Oracle master's tables: under which one a change was captured, and how they changed."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sluice import sql_files
from sluice.database.errors import LockNotAvailable
from sluice.database.session import Session
from sluice.model import table_definition
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.shape import TableShape
from sluice.vendors.oracle import catalog
from sluice.vendors.oracle.queue_position import QueuePosition, number_of
from sluice.vendors.oracle.session import native
from sluice.vendors.oracle.source.server import Server


class _Defined(NamedTuple):
    """A change of a definition in ITEMS."""

    action: str
    table: TableName
    before: str | None


def of_changes(
    connection: Session, prefix: Prefix, schema: str, tables: Sequence[TableName], seen: Position, above: int
) -> dict[TableName, TableShape]:
    """The definition of each of `tables` under which its next change after `seen`, above `above`, was captured."""
    del schema
    # In this order: a change of definition that commits in between is found by the second look.
    shapes = catalog.shapes(connection, tables)
    former: dict[TableName, str | None] = {}
    for change in _unseen(connection, prefix, seen, above):
        former.setdefault(change.table, change.before)
    for table in tables:
        text = former.get(table)
        if text is not None:
            shapes[table] = table_definition.parse(text).shape
    return shapes


def joining(connection: Session, prefix: Prefix, schema: str, applied: Position) -> dict[TableName, bool]:
    """The tables that join after `applied`. A load brings their rows, which never all follow in the stream."""
    del schema
    return {change.table: False for change in _unseen(connection, prefix, applied, 0) if change.action == "CREATE"}


def check(connection: Session, prefix: Prefix, schema: str) -> list[TableName]:
    """Compares the replicated tables with the recorded definitions, and queues an item for each change. Returns
    those that have changed."""
    del schema
    session = native(connection)
    before = Server(session, prefix).draw()
    session.call(f"{prefix}STRUCTURE.CHECK_STRUCTURE", {})
    statement = sql_files.render("oracle", "queue_definitions", prefix=str(prefix))
    rows = session.run(statement, {"floor": before}).fetchall()
    return list(dict.fromkeys(TableName(schema, table) for _, _, _, schema, table, _ in rows))


def compare(connection: Session, prefix: Prefix, schema: str) -> list[TableName]:
    """Like `check`, but finds nothing if writers or DDL hold the locks that it needs."""
    try:
        return check(connection, prefix, schema)
    except LockNotAvailable:
        return []


def digest(connection: Session, prefix: Prefix, schema: str) -> str:
    """A text that changes when definitions have to be compared."""
    del schema
    ((text,),) = native(connection).run(sql_files.render("oracle", "definitions_digest", prefix=str(prefix)))
    return str(text)


def reports(connection: Session, prefix: Prefix, schema: str) -> bool:
    """False: the trigger on the database reports only TRUNCATE at once; definitions are compared."""
    return False


def _unseen(connection: Session, prefix: Prefix, seen: Position, above: int) -> Iterator[_Defined]:
    """The changes of definitions that `seen` does not cover, in their order."""
    begins = QueuePosition.of(seen)
    statement = sql_files.render("oracle", "queue_definitions", prefix=str(prefix))
    floor = max(above, min([begins.low, *begins.floors.values()]))
    for key, transaction, action, schema, table, before in native(connection).run(statement, {"floor": floor}):
        if not begins.covers(number_of(transaction), int(key)):
            yield _Defined(action, TableName(schema, table), before)


def values_follow(connection: Session, prefix: Prefix, schema: str, table: TableName) -> bool:
    """Always false: CAPTURES does not record it here."""
    return False
