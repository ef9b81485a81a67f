"""Tables of a MySQL or MariaDB slave: created, filled, changed."""

import logging
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from sluice import sql_files
from sluice.database.column_types import ColumnTypes, LogicalColumn
from sluice.database.conflicts import ValueUnfit
from sluice.database.errors import DatabaseRefused, StatementFailed
from sluice.database.rows import KeyOrder, RowFormat
from sluice.database.schema import (
    Constraint,
    Index,
    TableDefinition,
)
from sluice.database.session import Session
from sluice.model.blocks import Block, Key
from sluice.model.logical_type import ColumnType
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.common.alter import Alterer, TableChange
from sluice.vendors.common.definitions import Definitions, same_index
from sluice.vendors.common.load_target import PlainLoadTarget
from sluice.vendors.common.slave_tables import SlaveTables
from sluice.vendors.mysql import catalog
from sluice.vendors.mysql.catalog import DEFINITIONS, MySQLDefinitions, MySQLTable, needed_indexes
from sluice.vendors.mysql.column_types import TEXTS, TYPES, ColumnTexts
from sluice.vendors.mysql.connection import MySQLSession, literal, native, quoted
from sluice.vendors.mysql.errors import number_of
from sluice.vendors.mysql.rows import MySQLKeyOrder

log = logging.getLogger("sluice.load")

# Rows by LOAD DATA LOCAL, of which each warning is an error: the server would clip values without one.

_FORMAT = (
    "CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n'"
)
_WRITING = pa_csv.WriteOptions(include_header=False, quoting_style="all_valid", null_string="NULL")
_ROWS_A_PIECE = 20_000


def load_rows(
    session: MySQLSession,
    table: TableName,
    place: str,
    columns: Sequence[ColumnTexts],
    pieces: Iterable[bytes | memoryview],
) -> int:
    """Canonical texts as CSV, with the word NULL and without a header, into the columns of `place`; how many rows.

    In a transaction that is rolled back if this raises `ValueUnfit`. `table`: for messages.
    """
    into, sets = [], []
    for number, column in enumerate(columns):
        into.append(column.quoted if column.plain else f"@v{number}")
        if not column.plain:
            sets.append(f"{column.quoted} = {column.value(f'@v{number}')}")
    statement = f"LOAD DATA LOCAL INFILE 'rows' INTO TABLE {place} {_FORMAT} ({', '.join(into)})"
    if sets:
        statement += f" SET {', '.join(sets)}"
    rows, wrong = session.load(statement, pieces)
    if wrong:
        raise ValueUnfit(table, "; ".join(session.warnings()) or "the server skipped it")
    return rows


def pieces_of(rows: "pa.Table") -> Iterable[bytes]:
    """Columns of texts as CSV."""
    for start in range(0, rows.num_rows, _ROWS_A_PIECE):
        sink = pa.BufferOutputStream()
        pa_csv.write_csv(rows.slice(start, _ROWS_A_PIECE), sink, _WRITING)
        yield sink.getvalue().to_pybytes()


# The CSV of every vendor as that of LOAD DATA, where NULL is a word, and an empty field an empty text.

_QUOTE, _COMMA, _LINE = ord('"'), ord(","), ord("\n")
_WORD = np.frombuffer(b"NULL", np.uint8)


def with_words(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """The records behind the first one, the header, cut after a field: empty fields are NULL, those that read NULL are
    quoted. `pieces` may be cut anywhere."""
    kept: list[bytes | memoryview] = []
    size, enough, headed = 0, 0, False
    for piece in _and_an_end(pieces):
        if piece is not None:
            kept.append(piece)
            size += len(piece)
            if size < enough:
                continue
        data = b"".join(kept)
        text = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(_ends(text))
        last = int(ends[-1]) + 1 if len(ends) else 0
        # A field that is larger than all that is there is looked at again when twice as much is.
        kept, size = [data[last:]], len(data) - last
        enough = 2 * size if not last else 0
        first = 0
        if not headed and len(lines := ends[text[ends] == _LINE]):
            headed, first = True, int(lines[0]) + 1
            ends = ends[ends >= first] - first
        if headed and len(ends):
            yield _worded(text[first:last], ends)


def _and_an_end(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview | None]:
    yield from pieces
    yield None


def _ends(text: "np.ndarray[tuple[int], np.dtype[np.uint8]]") -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """The ends of fields: commas and line ends that are not inside quotes."""
    ends: np.ndarray[tuple[int], np.dtype[np.bool_]] = (text == _COMMA) | (text == _LINE)
    quotes = text == _QUOTE
    if quotes.any():
        ends &= np.bitwise_xor.accumulate(quotes) == 0
    return ends


def _worded(
    text: "np.ndarray[tuple[int], np.dtype[np.uint8]]", ends: "np.ndarray[tuple[int], np.dtype[np.intp]]"
) -> bytes:
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts
    empty = starts[lengths == 0]
    four = starts[lengths == len(_WORD)]
    named = four[np.all(text[four[:, None] + np.arange(len(_WORD))] == _WORD, axis=1)] if len(four) else four
    if not len(empty) and not len(named):
        return text.tobytes()
    indices = np.concatenate((np.repeat(empty, len(_WORD)), named, named + len(_WORD)))
    letters = np.concatenate((np.tile(_WORD, len(empty)), np.full(2 * len(named), _QUOTE, np.uint8)))
    return bytes(np.insert(text, indices, letters).tobytes())


_HIDDEN_KEY = '"sluice row" bigint AUTO_INCREMENT INVISIBLE PRIMARY KEY'
"""What statements do not see, for servers on which no table may lack a key (`innodb_force_primary_key`)."""


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
    **dict.fromkeys((1059, 1060, 1166, 1300), _RENAME),
    **dict.fromkeys((1117, 1118, 1005), _FEWER),
    1173: "give it a primary key on the master; or, as an administrator: SET GLOBAL innodb_force_primary_key = OFF",
}
_NONE_LEFT = "take the table out of the replication's tables"
_OTHERWISE = f"change its columns by columns, or {_NONE_LEFT}"
_DUPLICATE_COLUMN = 1060


def _tried(
    session: MySQLSession, columns: Sequence[Column], key: Sequence[str], *, keyed: bool = False
) -> StatementFailed | None:
    """The error of a table with these columns. `keyed`: with a key of another column."""
    trial = quoted(_TRIED)
    try:
        session.run(f"DROP TEMPORARY TABLE IF EXISTS {trial}")
        body = _body(session, columns, key) + (f",\n    {_HIDDEN_KEY}" if keyed else "")
        session.run(f"CREATE TEMPORARY TABLE {trial} (\n    {body}\n) {made_as(session)}")
        session.run(f"DROP TEMPORARY TABLE {trial}")
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


class MySQLLoadTarget(MySQLDefinitions, PlainLoadTarget):
    """A slave that is loaded."""

    def not_tables(self, connection: Session, tables: Sequence[TableName]) -> dict[TableName, str]:
        """Names of `tables` that are used for something else, or that no table can have here."""
        session = native(connection)
        if not tables:
            return {}
        faults = {table: fault for table in tables if (fault := catalog.fault(session, table))}
        condition, values = catalog.among(session, tables)
        for database, name, kind in session.read_schema(
            sql_files.render("mysql", "relations", names=condition), values
        ):
            if kind != "BASE TABLE":
                faults[catalog.table_of(session, database, name)] = f"a {kind.lower()}"
        faults |= {table: f"{fault}, so it cannot be" for table, fault in _texts_merged(session, tables).items()}
        return faults

    def refusals(self, connection: Session, definitions: Sequence[TableDefinition]) -> dict[TableName, str]:
        """The server is asked, by temporary tables: what it takes for one name, or for too much, depends on its
        release."""
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
                what = "; ".join(
                    f"to the server the columns {', '.join(map(repr, each))} have one name" for each in alike
                )
            remedy = _REMEDIES.get(number_of(error), _RENAME if names_refused else _OTHERWISE)
            found[definition.table] = f"{what or error.reason.rstrip('.')}; {remedy}"
        return found

    def create_table(self, connection: Session, definition: TableDefinition, *, trusted: bool = False) -> None:
        """Makes an absent table with its key; the columns have types of this server. Nothing of the master's
        expressions is run: replicated values need no defaults."""
        session, table = native(connection), definition.table
        if fault := catalog.fault(session, table):
            refused = StatementFailed(f"{session.server}: {table} is {fault.rstrip(',')} on the slave")
            refused.reason = f"it is {fault.rstrip(',')}"
            raise refused
        if table.schema != catalog.HERE:
            session.run(f"CREATE DATABASE IF NOT EXISTS {quoted(table.schema)}")
        body = _body(session, definition.shape.columns, [column.name for column in definition.shape.key])
        session.run(f"CREATE TABLE IF NOT EXISTS {catalog.qualified(table)} (\n    {body}\n) {made_as(session)}")

    def create_scratch(self, connection: Session, like: TableShape) -> TableName:
        """Makes a temporary table with these columns; one a session."""
        session, scratch = native(connection), TableName(catalog.HERE, "sluice_scratch")
        columns = ", ".join(f"{quoted(column.name)} {column.type}" for column in like.columns)
        # The database's own character set may not hold every text.
        session.run(
            f"CREATE TEMPORARY TABLE {catalog.qualified(scratch)} ({columns}, {_HIDDEN_KEY}) {made_as(session)}"
        )
        return scratch

    def drop_table(self, connection: Session, table: TableName) -> None:
        """Drops a table that this update created."""
        native(connection).run(f"DROP TABLE IF EXISTS {catalog.qualified(table)}")

    def strip(
        self, connection: Session, master: Sequence[Index], constraints_of_master: Sequence[Constraint]
    ) -> list[str]:
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
                session.run(f"ALTER TABLE {catalog.qualified(index.table)} DROP INDEX {quoted(index.name)}")
                dropped.append(f"index {index.name} of {index.table}")
        return dropped

    def empty(self, connection: Session, shapes: Sequence[TableShape]) -> None:
        """Deletes all rows of these tables; foreign keys do not act."""
        session = native(connection)
        session.run("SET foreign_key_checks = 0")
        for shape in shapes:
            session.run(f"TRUNCATE TABLE {catalog.qualified(shape.table)}")

    def write(
        self,
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
        place = catalog.qualified(table)
        # This statement sees temporary tables as well.
        types = {name: kind for name, kind, *_ in session.run(f"SHOW COLUMNS FROM {place}")}
        # A column that is gone meanwhile is an error of the server, not of this look.
        into = [ColumnTexts(name, types.get(name, "longtext")) for name in columns]
        return load_rows(session, table, place, into, with_words(pieces))

    def clear(self, connection: Session, order: KeyOrder, block: Block) -> None:
        """Deletes the rows of a block, in the transaction that stores it."""
        session = native(connection)
        session.run("SET foreign_key_checks = 0")
        session.run(f"DELETE FROM {order.source} WHERE {order.within(block.lo, block.hi)}")

    def delete(self, connection: Session, order: KeyOrder, keys: Sequence[Key]) -> None:
        """Deletes the rows of these keys."""
        session = native(connection)
        assert isinstance(order, MySQLKeyOrder)
        columns = [ColumnTexts(column.name, column.type) for column in order.shape.key]
        condition = " AND ".join(f"{column.quoted} = {column.value('%s')}" for column in columns)
        with session.transaction():
            session.run("SET foreign_key_checks = 0")
            for key in keys:
                values = [text for column, text in zip(columns, key, strict=True) for _ in range(self._uses(column))]
                session.run(f"DELETE FROM {order.source} WHERE {condition}", values)

    def _uses(self, column: ColumnTexts) -> int:
        """How often the expression of a value names its text."""
        return column.value("%s").count("%s")

    def analyze(self, connection: Session, table: TableName) -> None:
        """Gathers statistics for the slave's planner, which has never seen these rows."""
        native(connection).run(f"ANALYZE TABLE {catalog.qualified(table)}")


LOAD_TARGET = MySQLLoadTarget()


_NOTE = re.compile(r" ?\[sluice (\d+)\]$")
"""What the comment of a table ends with, after a change that its columns do not show."""


class MySQLAlterer(Alterer[MySQLTable]):
    """Executes changes of definitions on a slave."""

    definitions: Definitions = DEFINITIONS

    def __init__(
        self, connection: Session, targets: SlaveTables[MySQLTable], of_master: ColumnTypes, lossy: Sequence[str]
    ):
        super().__init__(connection, targets, of_master, lossy)
        self.session = native(connection)

    def made_of(self, columns: Sequence[LogicalColumn]) -> Sequence[ColumnType]:
        return TYPES.made_of(self.session, columns)

    def holds(self, wider: str, type_: str) -> bool:
        return TYPES.holds(wider, type_)

    def create_table(self, wanted: TableDefinition) -> None:
        LOAD_TARGET.create_table(self.session, wanted)

    def drop_table(self, table: TableName) -> None:
        """With the foreign keys of other tables that refer to it, as the master did."""
        for own in catalog.foreign_keys(self.session, [table]):
            if own.key.child != table:
                self.do(table, DEFINITIONS.drop_foreign_key_statement(own.key.child, own.name))
        self.do(table, f"DROP TABLE IF EXISTS {catalog.qualified(table)}")

    def rename_table(self, old: TableName, new: TableName) -> None:
        if new.schema != catalog.HERE:
            self.do(new, f"CREATE DATABASE IF NOT EXISTS {quoted(new.schema)}")
        self.do(new, f"RENAME TABLE {catalog.qualified(old)} TO {catalog.qualified(new)}")

    def alter_table(self, change: TableChange, placed: Callable[[], None]) -> None:
        """Takes indexes and foreign keys of dropped columns along, as the master does, the foreign keys of columns that
        get another type, and indexes that become too long. `placed` is not needed in one statement."""
        table = change.table
        keys = self.touching(table, change)
        for own in keys:
            if own.key.child != table:
                self.do(table, DEFINITIONS.drop_foreign_key_statement(own.key.child, own.name))
        indexes = catalog.own_indexes(self.session, [table])
        have = self._shape(table)
        types = {each.name: each.type for each in have.columns} if have is not None else {}
        types |= {there.name: wanted.type for there, wanted, wider in change.modified if wider}
        gone = [
            each
            for each in indexes
            if not each.primary
            and change.touched & set(each.columns)
            and (
                set(change.dropped) & set(each.columns)
                or not catalog.whole([ColumnTexts(name, types.get(name, "")) for name in each.columns])
            )
        ]
        gone_keys = {own.name for own in keys if own.key.child == table}
        clauses = [f"DROP FOREIGN KEY {quoted(name)}" for name in sorted(gone_keys)]
        clauses += [f"DROP INDEX {quoted(index.name)}" for index in gone]
        if change.drops_key:
            clauses.append("DROP PRIMARY KEY")
        clauses += [f"DROP COLUMN {quoted(name)}" for name in change.dropped]
        modified = {there.name for there, _, _ in change.modified}
        clauses += [
            f"RENAME COLUMN {quoted(old)} TO {quoted(new)}"
            for old, new in change.renamed.items()
            if old not in modified
        ]
        for there, wanted, wider in change.modified:
            column = Column(
                wanted.name,
                wanted.type if wider else there.type,
                wanted.position,
                nullable=(wanted.nullable or there.nullable) and not wanted.key,
                key=wanted.key,
            )
            clauses.append(f"CHANGE COLUMN {quoted(there.name)} {column_clause(self.session, column)}")
        defaults = []
        for column, missing in change.added:
            if missing is None:
                loose = Column(column.name, column.type, column.position, nullable=True, key=column.key)
                clauses.append(f"ADD COLUMN {column_clause(self.session, loose)}")
                continue
            value = ColumnTexts(column.name, column.type).value(literal(missing))
            clauses.append(f"ADD COLUMN {column_clause(self.session, column)} DEFAULT ({value})")
            defaults.append(f"ALTER COLUMN {quoted(column.name)} DROP DEFAULT")
        if change.key:
            clauses.append(f"ADD PRIMARY KEY ({', '.join(map(quoted, change.key))})")
        clauses += needed_indexes(self.session, table, gone, gone_keys, change.renamed)
        if change.note is not None:
            comment = _NOTE.sub("", self._comment(table))
            clauses.append(f"COMMENT = {literal(f'{comment} [sluice {change.note}]')}")
        altered = f"ALTER TABLE {catalog.qualified(table)} "
        self.do(table, altered + ", ".join(clauses))
        if defaults:
            self.do(table, altered + ", ".join(defaults))

    def noted(self, table: TableName) -> int | None:
        matched = _NOTE.search(self._comment(table))
        return int(matched[1]) if matched else None

    def _comment(self, table: TableName) -> str:
        condition, values = catalog.among(self.session, [table])
        row = self.session.read_schema(
            f"SELECT table_comment FROM information_schema.tables WHERE {condition}", values
        ).fetchone()
        return str(row[0] or "") if row else ""

    def release(self, table: TableName) -> None:
        """Does nothing: foreign keys do not act in the apply's session."""

    def literal(self, text: str) -> str:
        return literal(text)

    def label(self, column: str) -> str:
        return f"CONVERT({quoted(column)} USING utf8mb4) COLLATE {self.session.collation}"

    def delete(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> int:
        target = self.targets[table]
        key = [target.column(column.name) for column in target.shape.key]
        if not key:
            return 0
        match = " AND ".join(f"{own.quoted} = {own.value(f'%(k{index})s')}" for index, own in enumerate(key))
        text = f"DELETE FROM {target.qualified} WHERE {match}"
        results = (self.session.run(text, {f"k{index}": value for index, value in enumerate(each)}) for each in keys)
        return sum(result.rowcount for result in results)
