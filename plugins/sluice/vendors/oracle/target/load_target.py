"""A slave that is loaded (`sluice.database.load.LoadTarget`)."""

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence

from sluice.database.errors import DatabaseRefused, NotNullViolation, StatementFailed
from sluice.database.load import ForeignKeyMet
from sluice.database.rows import KeyOrder, RowFormat
from sluice.database.schema import (
    CollationDefinition,
    Constraint,
    Index,
    SequenceDefinition,
    TableDefinition,
    TypeDefinition,
)
from sluice.database.session import Session
from sluice.model.blocks import Block, Key
from sluice.model.foreign_key_order import write_order
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.common.definitions import same_index
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.errors import refusal
from sluice.vendors.oracle.session import Value, native, quoted
from sluice.vendors.oracle.target import made_tables
from sluice.vendors.oracle.target.definitions import DEFINITIONS
from sluice.vendors.oracle.target.slave_tables import ValueUnfit

__all__ = [
    "advance_sequences",
    "analyze",
    "clear",
    "collations_lacking",
    "complete_constraints",
    "complete_indexes",
    "create_scratch",
    "create_table",
    "create_types",
    "delete",
    "drop_table",
    "empty",
    "foreign_keys",
    "formats",
    "lacking_privileges",
    "not_tables",
    "strip",
    "type_differences",
    "with_unique_values",
    "write",
]

complete_indexes, complete_constraints = DEFINITIONS.complete_indexes, DEFINITIONS.complete_constraints

ROWS_AT_ONCE = 2_000
_REFERRED = "ORA-2266"


def not_tables(connection: Session, tables: Sequence[TableName]) -> dict[TableName, str]:
    """Names of `tables` that are used for something else, or that no table can have here."""
    found = {table: fault for table in tables if (fault := names.fault(table))}
    used = catalog.relations(connection, [table for table in tables if table not in found])
    return found | {table: f"a {what.lower()}" for table, what in used.items() if what != "TABLE"}


def lacking_privileges(connection: Session, tables: Iterable[TableName]) -> dict[TableName, str]:
    """What this account may not do with existing tables; found by statements that touch no row."""
    session = native(connection)
    lacking: dict[TableName, str] = {}
    for table in tables:
        place = names.place(table)
        tried = {
            "SELECT": f"SELECT 1 FROM {place} WHERE 1 = 0",
            "INSERT": f"INSERT INTO {place} SELECT * FROM {place} WHERE 1 = 0",
            "DELETE": f"DELETE FROM {place} WHERE 1 = 0",
        }
        for privilege, statement in tried.items():
            try:
                session.run(statement)
            except (DatabaseRefused, StatementFailed):
                lacking[table] = f"{lacking[table]}, {privilege}" if table in lacking else privilege
    return lacking


def foreign_keys(connection: Session, tables: Sequence[TableName]) -> list[ForeignKeyMet]:
    """The slave's foreign keys from or to any of `tables`."""
    loaded = set(tables)
    return [
        ForeignKeyMet(own.key.child, own.name, own.key.parent, own.key.child in loaded, own.key.parent in loaded)
        for own in catalog.foreign_keys(connection, tables)
    ]


def with_unique_values(connection: Session, tables: Sequence[TableName]) -> set[TableName]:
    """Those of `tables` that keep more unique than their primary key."""
    return {index.table for index in catalog.own_indexes(connection, tables) if index.unique and not index.primary}


def type_differences(connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
    """None: a type of the master's own is a text here."""
    return []


def collations_lacking(connection: Session, used: Sequence[str], own: Sequence[CollationDefinition]) -> list[str]:
    """None: texts are compared by their bytes."""
    return []


def create_types(
    connection: Session,
    types: Sequence[TypeDefinition],
    collations: Sequence[CollationDefinition] = (),
    *,
    trusted: bool = False,
) -> list[str]:
    """None: they are texts here."""
    return []


def create_table(connection: Session, definition: TableDefinition, *, trusted: bool = False) -> None:
    """As of `made_tables`."""
    del trusted
    made_tables.create_table(native(connection), definition)


def create_scratch(connection: Session, like: TableShape) -> TableName:
    """As of `made_tables`."""
    return made_tables.create_scratch(native(connection), like)


def drop_table(connection: Session, table: TableName) -> None:
    """Removes a table that this update made."""
    if catalog.shape(connection, table) is not None:
        native(connection).run(f"DROP TABLE {names.place(table)} PURGE")


def strip(connection: Session, master: Sequence[Index], constraints_of_master: Sequence[Constraint]) -> list[str]:
    """Drops the foreign keys and secondary indexes that will be made again; what was dropped."""
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
            if refusal(error).code != _REFERRED:
                raise
            session.run(f"DELETE FROM {names.place(table)}")


def formats(columns: Sequence[Column], target: TableShape) -> Sequence[RowFormat]:
    """CSV alone."""
    return [RowFormat.CSV]


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
    for rows in _batches(pieces):
        bound: list[dict[str, Value]] = [
            {f"v{place}": column.bind(text) for place, (column, text) in enumerate(zip(own, row, strict=True))}
            for row in rows
        ]
        try:
            session.run_many(statement, bound)
        except StatementFailed as error:
            if isinstance(error, NotNullViolation) or refusal(error).of_row:
                raise ValueUnfit(table, refusal(error).text) from None
            raise
        written += len(rows)
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
    """Gathers statistics for the slave's planner, which has never seen these rows."""
    session = native(connection)
    values: dict[str, Value] = {"owner": names.owner_of(session, table), "name": f'"{table.name}"'}
    session.call("DBMS_STATS.GATHER_TABLE_STATS(:owner, :name)", values)


def advance_sequences(connection: Session, master: Sequence[SequenceDefinition]) -> int:
    """None: a slave draws no numbers."""
    return 0


class _Pieces(io.RawIOBase):
    """A file of what comes in pieces."""

    def __init__(self, pieces: Iterable[bytes | memoryview]):
        self._pieces = iter(pieces)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = bytes(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _batches(pieces: Iterable[bytes | memoryview]) -> Iterator[list[list[str]]]:
    """Rows of CSV without the header, some at a time. An empty text is NULL here, as a field with nothing in it."""
    csv.field_size_limit(sys.maxsize)
    raw = io.BufferedReader(_Pieces(pieces), buffer_size=1 << 20)
    rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
    next(rows, None)
    batch: list[list[str]] = []
    for row in rows:
        batch.append(row or [""])
        if len(batch) == ROWS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
