"""Tables, keys, indexes and foreign keys, from the views ALL_…, which show objects on which the account has a
privilege."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sluice import sql_files
from sluice.database.rows import Estimate
from sluice.database.session import Session
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.common.catalog import OwnForeignKey, OwnIndex, keyed, with_key
from sluice.vendors.oracle import names
from sluice.vendors.oracle.column_types import type_text
from sluice.vendors.oracle.session import OracleSession, Value, native

OF_COLUMNS = ("NORMAL", "NORMAL/REV", "IOT - TOP")
"""Types of indexes of plain columns, as in ALL_INDEXES."""
_ACTIONS = {"CASCADE": "c", "SET NULL": "n", "NO ACTION": "a"}


class TableNames:
    """The tables of a query of the dictionary."""

    def __init__(self, session: OracleSession, tables: Iterable[TableName]):
        self.tables = {(names.owner_of(session, table), table.name): table for table in tables}

    def __bool__(self) -> bool:
        return bool(self.tables)

    def condition(self, owner: str, name: str) -> str:
        """The condition that the columns `owner` and `name` name one of them."""
        pairs = ", ".join(f"(:o{number}, :n{number})" for number in range(len(self.tables)))
        return f"({owner}, {name}) IN ({pairs})"

    @property
    def values(self) -> Mapping[str, Value]:
        binds: dict[str, Value] = {}
        for number, (owner, name) in enumerate(self.tables):
            binds |= {f"o{number}": owner, f"n{number}": name}
        return binds

    def __getitem__(self, names: tuple[str, str]) -> TableName:
        return self.tables.get(names) or TableName(*names)


def _rows(
    connection: Session, name: str, tables: Sequence[TableName], owner: str, column: str
) -> list[tuple[TableName, tuple[Any, ...]]]:
    """Rows of the statement `name` for these tables, which its columns `owner` and `column` name; they come first."""
    session = native(connection)
    names = TableNames(session, tables)
    if not names:
        return []
    result = session.run(sql_files.render("oracle", name, tables=names.condition(owner, column)), names.values)
    return [(names[of, table], tuple(rest)) for of, table, *rest in result]


def shapes(connection: Session, tables: Iterable[TableName]) -> dict[TableName, TableShape]:
    """The shapes of those of `tables` that exist, not of views."""
    columns: dict[TableName, list[Column]] = {}
    for table, column in _rows(connection, "columns", list(tables), "c.OWNER", "c.TABLE_NAME"):
        columns.setdefault(table, []).append(_column(column))
    shapes_read = keyed(columns, own_indexes(connection, list(columns)))
    redo = native(connection).redo
    if redo is None:
        return shapes_read
    # Blocks and changes find a row by the same columns in the same order.
    keys = redo.keys()
    return {
        table: TableShape(table, with_key(shape.columns, keys.get(table, ()))) for table, shape in shapes_read.items()
    }


def shape(connection: Session, table: TableName) -> TableShape | None:
    """The shape of one table; None if it does not exist."""
    return shapes(connection, [table]).get(table)


def own_indexes(connection: Session, tables: Sequence[TableName]) -> list[OwnIndex]:
    """The indexes of `tables`, primary keys first."""
    indexes: dict[tuple[TableName, str], list[tuple[bool, bool, str, bool]]] = {}
    for table, row in _rows(connection, "indexes", tables, "c.TABLE_OWNER", "c.TABLE_NAME"):
        index, unique, kind, column, constraint = row
        entry = (unique == "UNIQUE", kind in OF_COLUMNS, column, constraint == "P")
        indexes.setdefault((table, index), []).append(entry)
    shapes_read = [
        OwnIndex(table, index, parts[0][0], tuple(part[2] for part in parts), parts[0][1], parts[0][3])
        for (table, index), parts in indexes.items()
    ]
    return sorted(shapes_read, key=lambda index: (index.table, not index.primary, index.name))


def foreign_keys(connection: Session, tables: Sequence[TableName]) -> list[OwnForeignKey]:
    """The foreign keys from or to any of `tables`."""
    session = native(connection)
    names = TableNames(session, tables)
    if not names:
        return []
    child, parent = names.condition("k.OWNER", "k.TABLE_NAME"), names.condition("p.OWNER", "p.TABLE_NAME")
    statement = sql_files.render("oracle", "foreign_keys", tables=f"({child} OR {parent})")
    by_name: dict[tuple[TableName, str], tuple[TableName, str, bool, list[str], list[str]]] = {}
    for owner, name, key, column, of_owner, of_name, of_column, rule, deferrable in session.run(
        statement, names.values
    ):
        entry = by_name.setdefault(
            (names[owner, name], key),
            (names[of_owner, of_name], _ACTIONS.get(rule, "a"), deferrable == "DEFERRABLE", [], []),
        )
        entry[3].append(column)
        entry[4].append(of_column)
    return [
        OwnForeignKey(key, ForeignKey(table, parent, "a", rule, tuple(columns), tuple(parents)), deferrable)
        for (table, key), (parent, rule, deferrable, columns, parents) in by_name.items()
    ]


def triggers(connection: Session, tables: Sequence[TableName]) -> list[tuple[TableName, str]]:
    """The triggers of `tables` that fire, with their tables."""
    rows = _rows(connection, "triggers", tables, "t.TABLE_OWNER", "t.TABLE_NAME")
    return [(table, trigger) for table, (trigger,) in rows]


def policies(connection: Session, tables: Sequence[TableName]) -> list[tuple[TableName, str]]:
    """The policies that may hide rows of `tables`, with their tables."""
    rows = _rows(connection, "policies", tables, "p.OBJECT_OWNER", "p.OBJECT_NAME")
    return [(table, policy) for table, (policy,) in rows]


def relations(connection: Session, tables: Sequence[TableName]) -> dict[TableName, str]:
    """The names of `tables` that are in use, with the kind of object in Oracle's words."""
    session = native(connection)
    names = TableNames(session, tables)
    if not names:
        return {}
    statement = sql_files.render("oracle", "relations", names=names.condition("o.OWNER", "o.OBJECT_NAME"))
    # Of a materialized view the table beneath it comes first.
    return {names[owner, name]: what for owner, name, what in session.run(statement, names.values)}


def estimates(connection: Session, tables: Sequence[TableName]) -> dict[TableName, Estimate]:
    """An estimate for each of `tables` that exists, from statistics: nothing is counted."""
    statistics = _rows(connection, "estimates", tables, "t.OWNER", "t.TABLE_NAME")
    return {table: Estimate(None if rows is None else int(rows), int(size)) for table, (rows, size) in statistics}


def kinds(connection: Session, tables: Sequence[TableName]) -> dict[TableName, str]:
    """The tables of `tables` with another storage of rows: their kind, with an article."""
    return {table: str(kind) for table, (kind,) in _rows(connection, "table_kinds", tables, "t.OWNER", "t.TABLE_NAME")}


def _column(row: Sequence[object]) -> Column:
    name, kind, length, characters, unit, precision, scale, position, nullable, virtual, identity = row
    type_ = type_text(
        str(kind), _number(length) or 0, _number(characters) or 0, None if unit is None else str(unit),
        _number(precision), _number(scale),
    )  # fmt: skip
    return Column(
        str(name), type_, _number(position) or 0, nullable == "Y", 0, None, "d" if identity == "YES" else "",
        "v" if virtual == "YES" else "",
    )  # fmt: skip


def _number(value: object) -> int | None:
    return None if value is None else int(str(value))
