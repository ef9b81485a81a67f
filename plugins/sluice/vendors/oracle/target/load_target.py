"""A slave that is loaded (`sluice.database.load.LoadTarget`)."""

# ruff: noqa: F401 (what is imported here is offered)

import logging
from collections.abc import Iterable, Sequence

from sluice.database import csv_rows
from sluice.database.errors import NotNullViolation, StatementFailed
from sluice.database.rows import KeyOrder, RowFormat
from sluice.database.schema import (
    Constraint,
    Index,
    TableDefinition,
)
from sluice.database.session import Session
from sluice.model.blocks import Block, Key
from sluice.model.foreign_key_order import write_order
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common import load_target as common
from sluice.vendors.common.definitions import same_index
from sluice.vendors.common.load_target import (
    advance_sequences,
    collations_lacking,
    complete_columns,
    create_types,
    extend_types,
    formats,
    refusals,
    type_differences,
    type_extensions,
)
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.errors import of_row
from sluice.vendors.oracle.session import Value, native, quoted
from sluice.vendors.oracle.target import made_tables
from sluice.vendors.oracle.target.definitions import DEFINITIONS
from sluice.vendors.oracle.target.slave_tables import unfit

complete_indexes, complete_constraints = DEFINITIONS.complete_indexes, DEFINITIONS.complete_constraints
foreign_keys, with_unique_values = DEFINITIONS.foreign_keys, DEFINITIONS.with_unique_values

ROWS_AT_ONCE = 2_000
_REFERRED = "ORA-2266"
_NOT_ANALYZED = "ORA-20000"
log = logging.getLogger(__name__)


def not_tables(connection: Session, tables: Sequence[TableName]) -> dict[TableName, str]:
    """Names of `tables` that are used for something else, or that no table can have here."""
    faults = {table: fault for table in tables if (fault := names.fault(table))}
    used = catalog.relations(connection, [table for table in tables if table not in faults])
    return faults | {table: f"a {what.lower()}" for table, what in used.items() if what != "TABLE"}


def lacking_privileges(connection: Session, tables: Iterable[TableName]) -> dict[TableName, str]:
    """The privileges that this account lacks on existing tables."""
    return common.lacking_privileges(native(connection).run, {table: names.place(table) for table in tables})


def create_table(connection: Session, definition: TableDefinition, *, trusted: bool = False) -> None:
    """As of `made_tables`."""
    del trusted
    made_tables.create_table(native(connection), definition)


def create_scratch(connection: Session, like: TableShape) -> TableName:
    """As of `made_tables`."""
    return made_tables.create_scratch(native(connection), like)


def drop_table(connection: Session, table: TableName) -> None:
    """Drops a table that this update created."""
    if catalog.shape(connection, table) is not None:
        native(connection).run(f"DROP TABLE {names.place(table)} PURGE")


def strip(connection: Session, master: Sequence[Index], constraints_of_master: Sequence[Constraint]) -> list[str]:
    """Drops the foreign keys and secondary indexes that are created again later. Returns what it dropped."""
    session, dropped = native(connection), []
    tables = sorted({index.table for index in master})
    again = {(each.table, each.name) for each in constraints_of_master if each.kind == "f"}
    for own in catalog.foreign_keys(connection, tables):
        if (own.key.child, own.name) in again:
            session.run(f"ALTER TABLE {names.place(own.key.child)} DROP CONSTRAINT {quoted(own.name)}")
            dropped.append(f"foreign key {own.name} of {own.key.child}")
    for index in catalog.own_indexes(connection, tables):
        if index.primary or not index.whole:
            continue
        if any(same_index(index, other) and other.name == index.name for other in master if other.table == index.table):
            try:
                session.run(f"DROP INDEX {quoted(index.name)}")
            except StatementFailed:
                continue  # a constraint of the slave's own needs it
            dropped.append(f"index {index.name} of {index.table}")
    return dropped


def empty(connection: Session, shapes: Sequence[TableShape]) -> None:
    """Deletes all rows of these tables, those that refer to others first. TRUNCATE commits."""
    session = native(connection)
    tables = [shape.table for shape in shapes]
    links = ((own.key.child, own.key.parent) for own in catalog.foreign_keys(connection, tables))
    for table in reversed(write_order(tables, links)):
        try:
            session.run(f"TRUNCATE TABLE {names.place(table)}")
        except StatementFailed as error:
            if error.code != _REFERRED:
                raise
            session.run(f"DELETE FROM {names.place(table)}")


def write(
    connection: Session,
    table: TableName,
    columns: Sequence[str],
    pieces: Iterable[bytes | memoryview],
    row_format: RowFormat,
) -> int:
    """Writes the rows of `pieces`, CSV with a header, in the caller's transaction; how many. Raises `ValueUnfit`."""
    assert row_format is RowFormat.CSV, row_format
    session, shape = native(connection), catalog.shape(connection, table)
    types = {column.name: column.type for column in shape.columns} if shape else {}
    own = [ColumnTexts(name, types.get(name, "CLOB")) for name in columns]
    values = ", ".join(column.value(f":v{place}") for place, column in enumerate(own))
    statement = f"INSERT INTO {names.place(table)} ({', '.join(each.quoted for each in own)}) VALUES ({values})"
    written = 0
    for rows in csv_rows.tables(pieces, columns):
        for start in range(0, rows.num_rows, ROWS_AT_ONCE):
            texts = [column.to_pylist() for column in rows.slice(start, ROWS_AT_ONCE).columns]
            bound: list[dict[str, Value]] = [
                {f"v{place}": column.bind(text) for place, (column, text) in enumerate(zip(own, row, strict=True))}
                for row in zip(*texts, strict=True)
            ]
            try:
                session.run_many(statement, bound)
            except StatementFailed as error:
                if isinstance(error, NotNullViolation) or of_row(error):
                    raise unfit(table, error.reason) from None
                raise
            written += len(bound)
    return written


def clear(connection: Session, order: KeyOrder, block: Block) -> None:
    """Deletes the rows of a block, in the transaction that stores it."""
    native(connection).run(f"DELETE FROM {order.source} WHERE {order.within(block.lo, block.hi)}")


def delete(connection: Session, order: KeyOrder, keys: Sequence[Key]) -> None:
    """Deletes the rows of these keys."""
    session = native(connection)
    own = [ColumnTexts(column.name, column.type) for column in order.shape.key]
    match = " AND ".join(f"{column.quoted} = {column.value(f':k{place}')}" for place, column in enumerate(own))
    rows: list[dict[str, Value]] = [
        {f"k{place}": column.bind(text) for place, (column, text) in enumerate(zip(own, key, strict=True))}
        for key in keys
    ]
    session.run_many(f"DELETE FROM {order.source} WHERE {match}", rows)


def analyze(connection: Session, table: TableName) -> None:
    """Gathers statistics for the slave's planner, which has never seen these rows. Where the account may not, of tables
    of another one, the server's own job does it at night."""
    session = native(connection)
    values: dict[str, Value] = {"owner": quoted(names.owner_of(session, table)), "name": quoted(table.name)}
    try:
        session.call("DBMS_STATS.GATHER_TABLE_STATS(:owner, :name)", values)
    except StatementFailed as error:
        if error.code != _NOT_ANALYZED:
            raise
        log.info("%s: no statistics of %s were gathered: %s", session.place, table, error.reason)
