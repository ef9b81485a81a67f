"""Net changes in stage tables, whose columns have the types of the slave's own columns."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from sluice.database.apply import Staged
from sluice.database.conflicts import ValueUnfit
from sluice.database.errors import StatementFailed
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.mysql.column_types import fitting_row
from sluice.vendors.mysql.connection import MySQLSession, native, quoted
from sluice.vendors.mysql.errors import number_of
from sluice.vendors.mysql.target import rows_in
from sluice.vendors.mysql.target.slave_tables import SlaveColumn, SlaveTable

_PLACE = re.compile(r"column [`'](?:[^`']*`\\.`)*(?P<column>[kcb]\d+)[`'] at row (?P<row>\d+)")

_TOO_WIDE = frozenset({1005, 1117, 1118})
"""Errors of InnoDB about more columns than one of its pages holds. MyISAM, which has no pages, takes them."""


@dataclass(frozen=True)
class Rows:
    """One set of rows in a stage table: `columns` its own, `c1`, `k2`, `b3`, see `NetChanges`."""

    place: str
    """The quoted name of the table."""
    columns: tuple[str, ...]
    rows: int
    expected: int
    """The number of rows of the slave that they represent, with copies."""


@dataclass(frozen=True)
class MysqlStaged(Staged):
    """Net changes in stage tables of the slave."""

    sets: Mapping[str, Rows] = field(default_factory=dict)
    """By the kinds of `NetChanges`."""


def typed(target: SlaveTable, columns: Sequence[str], key: Sequence[str], names: Sequence[str]) -> list[SlaveColumn]:
    """Stage columns as columns of a table. Raises `ColumnMissing`."""
    typed_columns = []
    for name in names:
        if name == "copies":
            typed_columns.append(SlaveColumn(name, "bigint"))
        else:
            own = target.column((key if name[0] == "k" else columns)[int(name[1:]) - 1])
            typed_columns.append(SlaveColumn(name, own.type, collation=own.collation))
    # Old and new values stand side by side: a row of those may be longer than the server lets one be.
    keys = [number for number, column in enumerate(typed_columns) if column.name[0] == "k"]
    fitting = fitting_row([column.type for column in typed_columns], keys)
    return [replace(column, type=type_) for column, type_ in zip(typed_columns, fitting, strict=True)]


def temporary(session: MySQLSession, name: str, changes: NetChanges, kind: str, target: SlaveTable) -> Rows:
    """One kind of rows in a temporary table, which replaces one of that name. Raises `ValueUnfit`.

    Neither this nor the end of the table commits anything.
    """
    session.run(f"DROP TEMPORARY TABLE IF EXISTS {quoted(name)}")
    return _filled(session, "TEMPORARY TABLE", quoted(name), changes, kind, target)


def put(
    connection: Session, changes: NetChanges, target: SlaveTable, *, prefix: Prefix, epoch: int, number: str
) -> MysqlStaged:
    """Net changes into tables `<prefix>stage_<epoch>_<number>_<kind>`, replacing what is there.

    In autocommit. Raises `ValueUnfit`, `ColumnMissing`.
    """
    session, sets = native(connection), {}
    for kind, rows in changes.by_kind.items():
        if rows.num_rows:
            place = quoted(f"{prefix.lower}stage_{epoch}_{number}_{kind}")
            session.run(f"DROP TABLE IF EXISTS {place}")
            sets[kind] = _filled(session, "TABLE", place, changes, kind, target)
    return MysqlStaged(changes.table, changes.columns, changes.key, changes.changes, changes.compared, sets)


def drop(connection: Session, prefix: Prefix, *, below: int) -> int:
    """Drops the stage tables of epochs below `below`; returns their number."""
    session = native(connection)
    begin = f"{prefix.lower}stage_"
    rows = session.read_schema(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %(here)s "
        "AND LEFT(table_name, CHAR_LENGTH(%(begin)s)) = %(begin)s",
        {"here": session.info.database, "begin": begin},
    ).fetchall()
    pattern = re.compile(re.escape(begin) + r"(\d+)_")
    names = [name for (name,) in rows if (match := pattern.match(name)) and int(match[1]) < below]
    for name in names:
        session.run(f"DROP TABLE IF EXISTS {quoted(name)}")
    return len(names)


def _filled(session: MySQLSession, what: str, place: str, changes: NetChanges, kind: str, target: SlaveTable) -> Rows:
    rows: pa.Table = getattr(changes, kind)
    columns = typed(target, changes.columns, changes.key, rows.column_names)
    # Texts compare as the table's own do: two collations cannot be compared at all.
    body = "".join(
        f", {column.quoted} {column.type}{f' COLLATE {column.collation}' if column.collation else ''} NULL"
        for column in columns
    )
    create = f"CREATE {what} {place} (row_no bigint AUTO_INCREMENT PRIMARY KEY{body})"
    try:
        session.run(f"{create} ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4")
    except StatementFailed as error:
        if number_of(error) not in _TOO_WIDE:
            raise
        session.run(f"{create} ENGINE = MyISAM CHARACTER SET utf8mb4")
    try:
        rows_in.load(session, target.table, place, columns, rows_in.pieces_of(rows))
    except ValueUnfit as unfit:
        raise _named(unfit, changes, rows, target) from unfit
    copies = pc.sum(rows.column("copies")).as_py() if "copies" in rows.column_names else rows.num_rows
    return Rows(place, tuple(rows.column_names), rows.num_rows, int(copies or 0))


def _named(unfit: ValueUnfit, changes: NetChanges, rows: pa.Table, target: SlaveTable) -> ValueUnfit:
    """The error with the table's own column, and with the value, if the server names them."""
    match = _PLACE.search(unfit.reason)
    if match is None or match["column"] == "copies":
        return unfit
    letter, number = match["column"][0], int(match["column"][1:])
    name = (changes.key if letter == "k" else changes.columns)[number - 1]
    value = rows.column(match["column"])[int(match["row"]) - 1].as_py() if int(match["row"]) <= rows.num_rows else None
    shown = None if name in target.hidden else value
    reason = "its text may hold values of masked columns" if target.hidden else unfit.reason
    return ValueUnfit(target.table, reason, column=name, value=shown)
