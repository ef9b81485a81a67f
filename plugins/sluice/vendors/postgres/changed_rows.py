"""The rows of a window of ITEMS by their keys, and digests of rows by keys: for the comparison within a failover."""

from collections.abc import Iterable, Sequence

from sluice import sql_files
from sluice.database.digests import Compared, Method, Texts
from sluice.database.failover import ChangedRows
from sluice.database.session import Session
from sluice.model import content
from sluice.model.guid import key_values
from sluice.model.names import Prefix, TableName
from sluice.model.position import Window
from sluice.model.shape import TableShape
from sluice.vendors.postgres import digest
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.digest import Digest
from sluice.vendors.postgres.source.window_condition import Condition

_OF_ROWS = ("INSERT", "UPDATE", "DELETE")


def changed_rows(
    connection: Session, prefix: Prefix, schema: str, window: Window, shapes: Iterable[TableShape], most: int
) -> tuple[dict[TableName, ChangedRows], int]:
    """See `sluice.database.failover.FailoverSupport`. Only keys leave the server, and the images of rows that got
    another key. Raises psycopg's errors."""
    names = {"prefix": prefix.lower, "schema": quoted(schema)}
    statement = sql_files.render(
        "postgres", "failover_changed", window=Condition.of(window).sql, most=str(int(most)), **names
    )
    keys = {shape.table: [column.name for column in shape.key] for shape in shapes}
    found: dict[TableName, ChangedRows] = {}
    rows = connection.execute(statement.encode()).fetchall()
    for _, table_schema, name, guid, action, after, before in rows:
        table = TableName(table_schema, name)
        if table not in keys:
            continue
        of_table, key = found.setdefault(table, ChangedRows()), keys[table]
        if action not in _OF_ROWS:
            of_table.others.add(action)
        elif after is not None:
            new = dict(content.parse(after))
            for row in (new, new | dict(content.parse(before or ""))):
                of_table.keys.add(tuple(row[column] for column in key))
        elif key:
            of_table.keys.add(tuple(key_values(guid, len(key))))
        else:
            of_table.keys.add(())
    return found, rows[0][0] if rows else 0


def row_digests(
    connection: Session, shape: TableShape, columns: tuple[Compared, ...], keys: Sequence[Texts]
) -> list[int | None]:
    """See `sluice.database.failover.FailoverSupport`. Raises psycopg's errors."""
    key = tuple(column.name for column in shape.key)
    return digest.digests_of_keys(connection, Digest(shape, columns, key, Method.MD5), keys)
