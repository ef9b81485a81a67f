"""Columns of an Oracle master that no trigger can read: LONG, LONG RAW, XMLTYPE.

The reader of a change reads their values from the row itself, by its key, as of the end of the window. So the last
change of a row in a window has the right values. Earlier changes of the row have them too early, which nobody sees:
a window is one transaction, and the slices of a large one are no states of the master. A row that no longer exists
then has a later change in the window, which deletes it.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from sluice import sql_files
from sluice.database.digests import Compared, ComparedTable
from sluice.database.errors import Contended, SnapshotTooOld
from sluice.model import content
from sluice.model.change import Action
from sluice.model.logical_type import Kind
from sluice.model.names import Prefix, TableName
from sluice.model.shape import Column
from sluice.vendors.oracle import catalog
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.column_types import logical
from sluice.vendors.oracle.rows import OracleRows
from sluice.vendors.oracle.session import OracleSession, Value

Key = tuple[str | None, ...]
Values = tuple[str | None, ...]


@dataclass(frozen=True)
class UnreadChange:
    """A change whose content lacks values."""

    repl_key: int
    table: TableName
    action: str
    content: str


def completed(session: OracleSession, prefix: Prefix, changes: Iterable[UnreadChange], scn: int) -> dict[int, str]:
    """The contents of `changes`, which are in order, with the values of their rows as of `scn`.

    For a row that no longer exists, an INSERT has empty values, which are deleted with the row; in an UPDATE the
    columns stay unchanged. The values of the last change of a row are stored in LONGS_TABLE: they remain right when
    the row is changed later.
    """
    contents: dict[int, str] = {}
    kept: dict[tuple[TableName, Key], int] = {}
    by_table: dict[TableName, list[UnreadChange]] = {}
    for change in changes:
        by_table.setdefault(change.table, []).append(change)
    for table, changes_of_table in by_table.items():
        shape = catalog.shape(session, table)
        columns = [] if shape is None or not shape.key else [each for each in shape.columns if _own(each).unread]
        rows = {change.repl_key: dict(content.parse(change.content)) for change in changes_of_table}
        key = [] if shape is None else [column.name for column in shape.key]
        keys = {number: tuple(row.get(name) for name in key) for number, row in rows.items()}
        values = _read(session, table, key, columns, sorted(set(keys.values()), key=repr), scn) if columns else {}
        for change in changes_of_table:
            row = values.get(keys[change.repl_key])
            if row is not None:
                kept[table, keys[change.repl_key]] = change.repl_key
            contents[change.repl_key] = _complete(change, columns, row)
    _keep(session, prefix, {number: contents[number] for number in kept.values()})
    return contents


def _own(column: Column) -> ColumnTexts:
    return ColumnTexts(column.name, column.type)


def _read(
    session: OracleSession, table: TableName, key: list[str], columns: list[Column], keys: list[Key], scn: int
) -> Mapping[Key, Values]:
    """The values as of `scn`; if undo does not reach back to it, or the table was altered since, the present values."""
    compared = tuple(Compared(column.name, column.type, logical(column.type)) for column in columns)
    of = ComparedTable(table, compared, tuple(key))
    with suppress(SnapshotTooOld, Contended):
        session.see(scn)
        try:
            return _rows_by_key(session, of, keys)
        finally:
            session.see_now()
    return _rows_by_key(session, of, keys)


def _rows_by_key(session: OracleSession, of: ComparedTable, keys: list[Key]) -> Mapping[Key, Values]:
    rows = OracleRows().rows_under(session, of, keys, alike=True)
    return {each: row for each, row in zip(keys, rows, strict=True) if row is not None}


def _complete(change: UnreadChange, columns: list[Column], values: Values | None) -> str:
    if values is not None:
        known = {column.name: value for column, value in zip(columns, values, strict=True)}
    elif change.action == Action.INSERT:
        known = {column.name: "\\x" if _own(column).kind is Kind.BINARY else "" for column in columns}
    else:
        return change.content
    return content.complete(change.content, known)


def _keep(session: OracleSession, prefix: Prefix, contents: Mapping[int, str]) -> None:
    statement = sql_files.render("oracle", "longs_fill", prefix=str(prefix))
    rows: list[dict[str, Value]] = [
        {"repl_key": number, "content": text, "mark": content.UNCHANGED} for number, text in contents.items()
    ]
    session.run_many(statement, rows)
