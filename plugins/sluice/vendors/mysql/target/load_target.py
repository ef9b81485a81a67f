"""A slave that is loaded (`sluice.database.load.LoadTarget`)."""

# ruff: noqa: F401 (what is imported here is offered)

import logging
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sluice import sql_files
from sluice.database.errors import DatabaseRefused, StatementFailed
from sluice.database.rows import KeyOrder, RowFormat
from sluice.database.schema import (
    Constraint,
    Index,
    TableDefinition,
)
from sluice.database.session import Session
from sluice.model.blocks import Block, Key
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.common import load_target as common
from sluice.vendors.common.definitions import same_index
from sluice.vendors.common.load_target import (
    advance_sequences,
    collations_lacking,
    complete_columns,
    create_types,
    extend_types,
    formats,
    type_differences,
    type_extensions,
)
from sluice.vendors.mysql import catalog, names
from sluice.vendors.mysql.column_texts import TEXTS, ColumnTexts
from sluice.vendors.mysql.connection import MySQLSession, native, quoted
from sluice.vendors.mysql.csv_nulls import with_words
from sluice.vendors.mysql.errors import number_of
from sluice.vendors.mysql.key_order import KeyOrder as OwnKeyOrder
from sluice.vendors.mysql.target import rows_in
from sluice.vendors.mysql.target.definitions import DEFINITIONS

complete_indexes, complete_constraints = DEFINITIONS.complete_indexes, DEFINITIONS.complete_constraints
foreign_keys, with_unique_values = DEFINITIONS.foreign_keys, DEFINITIONS.with_unique_values

_HIDDEN_KEY = '"sluice row" bigint AUTO_INCREMENT INVISIBLE PRIMARY KEY'
"""What statements do not see, for servers on which no table may lack a key (`innodb_force_primary_key`)."""

log = logging.getLogger("sluice.load")


def not_tables(connection: Session, tables: Sequence[TableName]) -> dict[TableName, str]:
    """Names of `tables` that are used for something else, or that no table can have here."""
    session = native(connection)
    if not tables:
        return {}
    faults = {table: fault for table in tables if (fault := names.fault(session, table))}
    condition, values = catalog.among(session, tables)
    for database, name, kind in session.read_schema(sql_files.render("mysql", "relations", names=condition), values):
        if kind != "BASE TABLE":
            faults[names.table_of(session, database, name)] = f"a {kind.lower()}"
    faults |= {table: f"{fault}, so it cannot be" for table, fault in _texts_merged(session, tables).items()}
    return faults


def _texts_merged(session: MySQLSession, tables: Sequence[TableName]) -> dict[TableName, str]:
    """Existing tables whose keys or unique values have a collation in which different texts are equal."""
    merged: dict[TableName, str] = {}
    shapes = catalog.shapes(session, tables)
    for index in catalog.own_indexes(session, list(shapes)):
        if not index.unique:
            continue
        for name in index.columns:
            column = next((each for each in shapes[index.table].columns if each.name == name), None)
            if column is None or column.collation is None:
                continue
            if not column.collation.endswith(("_nopad_bin", "_0900_bin")) and column.collation != "binary":
                merged[index.table] = (
                    f"a table whose column {name}, of a key, has the collation {column.collation}, to which texts that "
                    f"differ are one (make it {session.collation})"
                )
    return merged


_TRIED = "sluice_tried"
_RENAME = "give the columns other names there, by columns: {NAME: {rename: OTHER}} of the table"
_FEWER = "leave columns out by columns: {NAME: {exclude: true}} of the table"
_REMEDIES = {
    1059: _RENAME, 1060: _RENAME, 1166: _RENAME, 1300: _RENAME,
    1117: _FEWER, 1118: _FEWER, 1005: _FEWER,
    1173: "give it a primary key on the master; or, as an administrator: SET GLOBAL innodb_force_primary_key = OFF",
}  # fmt: skip
_NONE_LEFT = "take the table out of the replication's tables"
_OTHERWISE = f"change its columns by columns, or {_NONE_LEFT}"


def refusals(connection: Session, definitions: Sequence[TableDefinition]) -> dict[TableName, str]:
    """The server is asked, by temporary tables: what it takes for one name, or for too much, depends on its release."""
    session = native(connection)
    found = {}
    for definition in definitions:
        if not definition.shape.columns:
            found[definition.table] = f"it has no column that a row could be written to; {_NONE_LEFT}"
            continue
        error = _tried(session, definition.shape.columns, [column.name for column in definition.shape.key])
        if error is None:
            continue
        names_refused = {
            column.name: refused.reason
            for column in definition.shape.columns
            if (refused := _tried(session, [replace(column, key=0)], [], keyed=True)) is not None
        }
        what = "; ".join(f"column {name!r}: {reason}" for name, reason in names_refused.items())
        if not what and number_of(error) == _DUPLICATE_COLUMN:
            alike = _alike(definition.shape.columns)
            what = "; ".join(f"to the server the columns {', '.join(map(repr, each))} have one name" for each in alike)
        remedy = _REMEDIES.get(number_of(error), _RENAME if names_refused else _OTHERWISE)
        found[definition.table] = f"{what or error.reason.rstrip('.')}; {remedy}"
    return found


_DUPLICATE_COLUMN = 1060


def _tried(
    session: MySQLSession, columns: Sequence[Column], key: Sequence[str], *, keyed: bool = False
) -> StatementFailed | None:
    """The error of a table with these columns. `keyed`: with a key of another column."""
    place = quoted(_TRIED)
    try:
        session.run(f"DROP TEMPORARY TABLE IF EXISTS {place}")
        body = _body(session, columns, key) + (f",\n    {_HIDDEN_KEY}" if keyed else "")
        session.run(f"CREATE TEMPORARY TABLE {place} (\n    {body}\n) {made_as(session)}")
        session.run(f"DROP TEMPORARY TABLE {place}")
    except StatementFailed as error:
        return error
    except DatabaseRefused:
        return None  # the lacking privilege is reported elsewhere
    return None


def _alike(columns: Sequence[Column]) -> list[list[str]]:
    """Names that differ in case alone, or in accents too, as the server's rules for names may have it."""
    alike: dict[str, list[str]] = {}
    for column in columns:
        letters = unicodedata.normalize("NFKD", column.name.casefold())
        plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
        alike.setdefault(plain, []).append(column.name)
    return [each for each in alike.values() if len(each) > 1]


def lacking_privileges(connection: Session, tables: Iterable[TableName]) -> dict[TableName, str]:
    """The privileges that this account lacks on existing tables."""
    return common.lacking_privileges(native(connection).run, {table: names.place(table) for table in tables})


def create_table(connection: Session, definition: TableDefinition, *, trusted: bool = False) -> None:
    """Makes an absent table with its key; the columns have types of this server. Nothing of the master's expressions
    is run: replicated values need no defaults."""
    session, table = native(connection), definition.table
    if fault := names.fault(session, table):
        refused = StatementFailed(f"{session.place}: {table} is {fault.rstrip(',')} on the slave")
        refused.reason = f"it is {fault.rstrip(',')}"
        raise refused
    if table.schema != names.HERE:
        session.run(f"CREATE DATABASE IF NOT EXISTS {quoted(table.schema)}")
    body = _body(session, definition.shape.columns, [column.name for column in definition.shape.key])
    session.run(f"CREATE TABLE IF NOT EXISTS {names.place(table)} (\n    {body}\n) {made_as(session)}")


def _body(session: MySQLSession, columns: Sequence[Column], key: Sequence[str]) -> str:
    lines = [column_clause(session, column) for column in columns]
    if key:
        lines.append(f"PRIMARY KEY ({', '.join(map(quoted, key))})")
    return ",\n    ".join(lines)


def made_as(session: MySQLSession) -> str:
    """The storage and collation of every created table."""
    return f"ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {session.collation}"


def column_clause(session: MySQLSession, column: Column) -> str:
    """A column of a created table."""
    own = ColumnTexts(column.name, column.type)
    collation = f" CHARACTER SET utf8mb4 COLLATE {session.collation}" if own.base in TEXTS else ""
    return f"{own.quoted} {column.type}{collation}{' NULL' if column.nullable and not column.key else ' NOT NULL'}"


def create_scratch(connection: Session, like: TableShape) -> TableName:
    """Makes a temporary table with these columns; one a session."""
    session, scratch = native(connection), TableName(names.HERE, "sluice_scratch")
    columns = ", ".join(f"{quoted(column.name)} {column.type}" for column in like.columns)
    # The database's own character set may not hold every text.
    session.run(f"CREATE TEMPORARY TABLE {names.place(scratch)} ({columns}, {_HIDDEN_KEY}) {made_as(session)}")
    return scratch


def drop_table(connection: Session, table: TableName) -> None:
    """Drops a table that this update created."""
    native(connection).run(f"DROP TABLE IF EXISTS {names.place(table)}")


def strip(connection: Session, master: Sequence[Index], constraints_of_master: Sequence[Constraint]) -> list[str]:
    """Drops the secondary indexes that `complete_indexes` creates again; returns them.

    Foreign keys do not act while rows are loaded, and stay.
    """
    del constraints_of_master
    session = native(connection)
    dropped = []
    tables = sorted({index.table for index in master})
    needed = {column for own in catalog.foreign_keys(connection, tables) for column in own.key.columns}
    for index in catalog.own_indexes(connection, tables):
        if index.primary or not index.whole or needed & set(index.columns[:1]):
            continue
        if any(same_index(index, other) for other in master if other.table == index.table):
            session.run(f"ALTER TABLE {names.place(index.table)} DROP INDEX {quoted(index.name)}")
            dropped.append(f"index {index.name} of {index.table}")
    return dropped


def empty(connection: Session, shapes: Sequence[TableShape]) -> None:
    """Deletes all rows of these tables; foreign keys do not act."""
    session = native(connection)
    session.run("SET foreign_key_checks = 0")
    for shape in shapes:
        session.run(f"TRUNCATE TABLE {names.place(shape.table)}")


def write(
    connection: Session,
    table: TableName,
    columns: Sequence[str],
    pieces: Iterable[bytes | memoryview],
    row_format: RowFormat,
) -> int:
    """Writes the rows of `pieces`, CSV with a header, in the caller's transaction; returns their number. Raises
    `ValueUnfit`."""
    assert row_format is RowFormat.CSV, row_format
    session = native(connection)
    session.run("SET foreign_key_checks = 0")
    place = names.place(table)
    # This statement sees temporary tables as well.
    types = {name: kind for name, kind, *_ in session.run(f"SHOW COLUMNS FROM {place}")}
    # A column that is gone meanwhile is an error of the server, not of this look.
    into = [ColumnTexts(name, types.get(name, "longtext")) for name in columns]
    return rows_in.load(session, table, place, into, with_words(pieces))


def clear(connection: Session, order: KeyOrder, block: Block) -> None:
    """Deletes the rows of a block, in the transaction that stores it."""
    session = native(connection)
    session.run("SET foreign_key_checks = 0")
    session.run(f"DELETE FROM {order.source} WHERE {order.within(block.lo, block.hi)}")


def delete(connection: Session, order: KeyOrder, keys: Sequence[Key]) -> None:
    """Deletes the rows of these keys."""
    session = native(connection)
    assert isinstance(order, OwnKeyOrder)
    columns = [ColumnTexts(column.name, column.type) for column in order.shape.key]
    condition = " AND ".join(f"{column.quoted} = {column.value('%s')}" for column in columns)
    with session.transaction():
        session.run("SET foreign_key_checks = 0")
        for key in keys:
            values = [text for column, text in zip(columns, key, strict=True) for _ in range(_uses(column))]
            session.run(f"DELETE FROM {order.source} WHERE {condition}", values)


def _uses(column: ColumnTexts) -> int:
    """How often the expression of a value names its text."""
    return column.value("%s").count("%s")


def analyze(connection: Session, table: TableName) -> None:
    """Gathers statistics for the slave's planner, which has never seen these rows."""
    native(connection).run(f"ANALYZE TABLE {names.place(table)}")
