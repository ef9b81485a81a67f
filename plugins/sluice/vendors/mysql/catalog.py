"""Tables, keys, indexes and foreign keys, from information_schema."""

from collections.abc import Iterable, Sequence

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.common.catalog import OwnForeignKey, OwnIndex, keyed
from sluice.vendors.mysql import names
from sluice.vendors.mysql.connection import MySQLSession, native

_PRIMARY = "PRIMARY"
OF_TRIGGERS = ("event_object_schema", "event_object_table")
"""Columns that name the table of a trigger."""
_ACTIONS = {"CASCADE": "c", "SET NULL": "n", "SET DEFAULT": "d", "RESTRICT": "r", "NO ACTION": "a"}


def among(
    session: MySQLSession, tables: Sequence[TableName], columns: tuple[str, str] = ("table_schema", "table_name")
) -> tuple[str, dict[str, object]]:
    """The condition that two columns of information_schema name one of `tables`, and its parameters.

    Byte by byte: to those columns `Items` and `ITEMS` are one name, and of a list with both the server looks for one.
    """
    places = [(names.database_of(session, table.schema), table.name) for table in tables]
    values: dict[str, object] = {}
    for number, (database, name) in enumerate(places):
        values |= {f"d{number}": database, f"n{number}": name}
    pairs = ", ".join(f"(%(d{number})s, %(n{number})s)" for number in range(len(places)))
    schema, name = columns
    condition = f"(CAST({schema} AS BINARY), CAST({name} AS BINARY)) IN ({pairs})"
    if len(places) > 1:
        return condition, values
    # By these the server finds one table without opening all.
    values |= {"d": names.in_dictionary(places[0][0]), "n": names.in_dictionary(places[0][1])}
    return f"({condition} AND {schema} = %(d)s AND {name} = %(n)s)", values


def shapes(connection: Session, tables: Iterable[TableName]) -> dict[TableName, TableShape]:
    """The shapes of those of `tables` that exist, not of views."""
    session, wanted = native(connection), list(dict.fromkeys(tables))
    if not wanted:
        return {}
    condition, values = among(session, wanted)
    columns: dict[TableName, list[Column]] = {}
    for database, name, *column in session.read_schema(sql_files.render("mysql", "columns", tables=condition), values):
        columns.setdefault(names.table_of(session, database, name), []).append(_column(column))
    return keyed(columns, own_indexes(connection, list(columns)))


def shape(connection: Session, table: TableName) -> TableShape | None:
    """The shape of one table; None if it does not exist."""
    return shapes(connection, [table]).get(table)


def own_indexes(connection: Session, tables: Sequence[TableName]) -> list[OwnIndex]:
    """The indexes of `tables`, primary keys first."""
    session = native(connection)
    if not tables:
        return []
    condition, values = among(session, tables)
    by_index: dict[tuple[TableName, str], list[tuple[str | None, bool, bool]]] = {}
    rows = session.read_schema(sql_files.render("mysql", "indexes", tables=condition), values)
    for database, name, index, unique, column, part in rows:
        entry = (column, bool(unique), part is not None)
        by_index.setdefault((names.table_of(session, database, name), index), []).append(entry)
    made = [
        OwnIndex(
            table,
            index,
            parts[0][1],
            tuple(column or "" for column, _, _ in parts),
            all(column is not None and not prefix for column, _, prefix in parts),
            index == _PRIMARY,
        )
        for (table, index), parts in by_index.items()
    ]
    return sorted(made, key=lambda index: (index.table, not index.primary, index.name))


def foreign_keys(connection: Session, tables: Sequence[TableName]) -> list[OwnForeignKey]:
    """The foreign keys from or to any of `tables`."""
    session = native(connection)
    if not tables:
        return []
    condition, values = among(session, tables)
    referred, _ = among(session, tables, ("referenced_table_schema", "referenced_table_name"))
    statement = sql_files.render("mysql", "foreign_keys", tables=f"({condition} OR {referred})")
    by_name: dict[tuple[TableName, str], tuple[TableName, str, str, list[str], list[str]]] = {}
    for database, name, key, column, other, parent, parent_column, on_update, on_delete in session.read_schema(
        statement, values
    ):
        child = names.table_of(session, database, name)
        entry = by_name.setdefault(
            (child, key),
            (names.table_of(session, other, parent), _ACTIONS[on_update], _ACTIONS[on_delete], [], []),
        )
        entry[3].append(column)
        entry[4].append(parent_column)
    return [
        OwnForeignKey(key, ForeignKey(child, parent, on_update, on_delete, tuple(columns), tuple(parents)))
        for (child, key), (parent, on_update, on_delete, columns, parents) in by_name.items()
    ]


def _column(row: Sequence[object]) -> Column:
    name, column_type, position, nullable, default, extra, collation = map(str, row[:7])
    generated = "v" if "VIRTUAL" in extra else "s" if "STORED GENERATED" in extra or "PERSISTENT" in extra else ""
    return Column(
        name,
        column_type,
        int(position),
        nullable == "YES",
        0,
        None if row[4] is None or default == "NULL" else default,
        "d" if "auto_increment" in extra else "",
        generated,
        None if row[6] is None else collation,
    )
