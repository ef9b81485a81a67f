"""Rows of a master as the recorder has them: types and texts are those of the recorded stream."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

from sluice import sql_files
from sluice.database.column_types import LogicalColumn
from sluice.database.digests import ComparedTable, TableDigest
from sluice.database.registry import vendor_of
from sluice.database.rows import BlockRead, MasterRows, RowFormat, SnapshotGone
from sluice.database.schema import TypeDefinition
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.key_ranges import located
from sluice.model.logical_type import ColumnType, Kind, LogicalType, Special
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.row_condition import RowCondition
from sluice.model.shape import Column, TableShape
from sluice.model.vendors import FIRST
from sluice.vendors.common.rows import special_row
from sluice.vendors.mysql import catalog
from sluice.vendors.mysql.binlog import columns as logged
from sluice.vendors.mysql.binlog import values
from sluice.vendors.mysql.column_types import TEXTS, ColumnTexts, MySQLTypes, float_digits
from sluice.vendors.mysql.connection import MySQLSession, native
from sluice.vendors.mysql.rows import MySQLDigest, MySQLDigester, MySQLKeyOrder, MySQLRows

_ORDERED_ALIKE = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE})
_ORDERED = _ORDERED_ALIKE | {Kind.BINARY}
"""Kinds whose values this server orders as their texts tell: an apply finds a key's block by its text alone."""
PIECE_BYTES, PIECE_ROWS = 1 << 20, 2_000


@dataclass(frozen=True)
class LoggedTexts(ColumnTexts):
    """A column whose texts are those of the log's rows (`sluice.vendors.mysql.binlog.values`)."""

    @property
    def boolean(self) -> bool:
        """No: it has 2, too."""
        return False

    @property
    def float(self) -> bool:
        return self.base == "double"

    def text(self, alias: str, *, zoned: bool = False) -> str:
        value = f"{alias}.{self.quoted}"
        if self.base == "timestamp":
            return super().text(alias, zoned=True)
        if self.base in TEXTS:
            return f"CONVERT({value} USING utf8mb4)"
        if self.base == "float":
            # As a text of its own it has six digits alone.
            return f"CAST(CAST({value} AS DOUBLE) AS CHAR)"
        if self.base == "year" or "zerofill" in self.type.lower():
            return f"CAST({value} + 0 AS CHAR)"
        return super().text(alias, zoned=zoned)

    def shown(self, text: str | None) -> str | None:
        if text is not None and self.base == "float":
            return values.single(float(text))
        return super().shown(text)

    def canonical(self, alias: str, kind: Kind) -> str:
        if kind is Kind.FLOAT and self.base == "float":
            return float_digits(_shortest(f"{alias}.{self.quoted}"))
        if kind is Kind.ADDRESS:
            return f"CONCAT({self.text(alias)}, '/{32 if self.base == 'inet4' else 128}')"
        if kind is Kind.CHAR:
            return f"TRIM(TRAILING ' ' FROM {self.text(alias)})"
        return super().canonical(alias, kind)

    def is_special(self, alias: str, special: Special, length: int) -> str | None:
        """The condition that a value is a special one; None if the type has none."""
        text = f"{alias}.{self.quoted}"
        if self.base in TEXTS:
            conditions = {
                Special.ZERO_CHARACTER: f"LOCATE(CHAR(0), {text}) > 0",
                Special.EMPTY: f"{text} = ''",
                Special.TOO_LONG: f"CHAR_LENGTH({text}) > {length}",
            }
            return conditions.get(special)
        if self.base in ("varbinary", "blob") and special is Special.TOO_LONG:
            return f"LENGTH({text}) > {length}"
        if special is Special.BEFORE_YEAR_1 and self.base in ("date", "datetime", "timestamp"):
            return f"YEAR({text}) = 0"
        return None


def _shortest(value: str) -> str:
    """The text of a FLOAT with the fewest digits that name it, six at least, as `values.single` writes it."""
    double = f"CAST({value} AS DOUBLE)"
    cases = []
    for digits in (6, 7, 8, 9):
        rounded = f"ROUND({double}, {digits - 1} - FLOOR(LOG10(ABS({double}))))"
        cases.append(f"WHEN CAST({rounded} AS FLOAT) = {value} THEN CAST({rounded} AS CHAR)")
    return f"CASE WHEN {value} = 0 THEN '0' {' '.join(cases)} ELSE CAST({double} AS CHAR) END"


_OF_STREAM = re.compile(r"(integer|numeric|character|real|double precision|bytea|interval|inet)\b|.* time zone$")
"""Types of a stream that this server writes in other words; all others it writes alike."""


class LoggedTypes(MySQLTypes):
    """The types of a stream that is recorded from this server's log, by their own names and by those of the columns."""

    def logical(self, type_name: str, defined: Sequence[TypeDefinition] = ()) -> LogicalType:
        if _OF_STREAM.match(type_name):
            return vendor_of(FIRST).types.logical(type_name, defined)
        return logged.logical(type_name)

    def in_stream(self, connection: Session, columns: Sequence[Column]) -> list[str]:
        """The types in the stream of a table's columns."""
        logical = [LogicalColumn(column.name, self.logical(column.type), column.key > 0) for column in columns]
        return [made.type for made in vendor_of(FIRST).types.made_of(connection, logical)]


TYPES = LoggedTypes()


class BlockQuery(str):
    """The query for the rows of a block. The stream of its rows replaces those that the log has newer."""

    __slots__ = ("columns", "hi", "lo", "shape")
    columns: Sequence[LoggedTexts]
    shape: TableShape
    lo: Key | None
    hi: Key | None


class LoggedKeyOrder(MySQLKeyOrder):
    """The order of keys, in the log's texts."""

    @cached_property
    def columns(self) -> tuple[LoggedTexts, ...]:
        return tuple(LoggedTexts(column.name, column.type) for column in self.shape.key)

    @property
    def divisible(self) -> bool:
        """Whether the table can be read in blocks: else it is one."""
        return self._kinds <= _ORDERED

    @property
    def same_everywhere(self) -> bool:
        return self._kinds <= _ORDERED_ALIKE

    @property
    def _kinds(self) -> set[Kind]:
        return {TYPES.logical(column.type).kind for column in self.shape.key}

    def next_bound(self, connection: Session, lo: Key | None, hi: Key | None, rows: int) -> Key | None:
        return super().next_bound(connection, lo, hi, rows) if self.divisible else None

    def select(
        self,
        columns: Sequence[Column],
        lo: Key | None,
        hi: Key | None,
        *,
        locked: bool = False,
        canonical: bool = False,
        where: Sequence[RowCondition] = (),
    ) -> str:
        """Values are canonical texts in any case; all rows of the block come, `where` is not evaluated."""
        del locked, canonical, where
        own = [LoggedTexts(column.name, column.type) for column in columns]
        texts = ", ".join(f"{each.text('t')} AS {each.quoted}" for each in own) or "1"
        query = f"SELECT {texts} FROM {self.source} t WHERE {self.within(lo, hi)}"
        # By the table's columns: a name alone is that of a text.
        made = BlockQuery(
            f"{query} ORDER BY {', '.join(f't.{each.quoted}' for each in self.columns)}" if own else query
        )
        if not self.columns:
            made = BlockQuery(query)
        made.columns, made.shape, made.lo, made.hi = own, self.shape, lo, hi
        return made


class LoggedStream:
    """See `sluice.database.rows.RowStream`: CSV of texts."""

    def __init__(self, session: MySQLSession, query: BlockQuery, taken: Callable[[], None] | None):
        self.rows = 0
        self._session, self._query, self._taken = session, query, taken

    def __iter__(self) -> Iterator[bytes | memoryview]:
        lines, size = [record([column.name for column in self._query.columns])], 0
        for rows in self._read():
            for row in rows:
                line = record(row)
                lines.append(line)
                size += len(line)
            self.rows += len(rows)
            if size >= PIECE_BYTES:
                yield "\n".join([*lines, ""]).encode()
                lines, size = [], 0
        if self._taken is not None:
            self._taken()
        yield "\n".join([*lines, ""]).encode()

    def _read(self) -> Iterator[list[Sequence[str | None]]]:
        query, corrected = self._query, self._session.corrected
        names = [column.name for column in query.columns]
        shown = [(index, column.shown) for index, column in enumerate(query.columns) if column.base in _SHOWN]
        key = [names.index(column.name) for column in query.shape.key] if corrected else []
        for read in self._session.stream(query, PIECE_ROWS):
            rows: list[Sequence[str | None]] = list(read)
            if shown:
                rows = [_shown(row, shown) for row in rows]
            if corrected:
                rows = [row for row in rows if tuple(row[index] or "" for index in key) not in corrected]
            yield rows
        images = {index: row for index, row in corrected.items() if row is not None}
        if within := _within(query.shape, list(images), query.lo, query.hi):
            yield [[images[index][name] for name in names] for index in within]


_SHOWN = frozenset({"float", "double"})
"""Types whose texts are completed here."""


def _shown(
    row: Sequence[str | None], shown: Sequence[tuple[int, Callable[[str | None], str | None]]]
) -> list[str | None]:
    made = list(row)
    for index, text in shown:
        made[index] = text(made[index])
    return made


def _within(shape: TableShape, keys: Sequence[Key], lo: Key | None, hi: Key | None) -> list[Key]:
    """Those of the keys that are in a block."""
    bounds = [bound for bound in (lo, hi) if bound is not None]
    kinds = [TYPES.logical(column.type).kind for column in shape.key]
    indices = located(kinds, bounds, keys)
    return [key for key, index in zip(keys, indices, strict=True) if index == (0 if lo is None else 1)]


def record(row: Sequence[str | None]) -> str:
    """A line of CSV: an empty field is NULL; all others are in quotes."""
    return ",".join(["" if text is None else '"' + text.replace('"', '""') + '"' for text in row])


class LoggedDigest(MySQLDigest):
    """Digests over the log's texts."""

    def own(self, name: str) -> ColumnTexts:
        return LoggedTexts(name, self.shape.column(name).type)

    def converted(self, connection: Session, name: str, texts: Sequence[str | None]) -> list[str | None]:
        """The texts in changes are those of the rows; this writes them as they are compared."""
        kind, own = self.kinds[name], LoggedTexts(name, self.shape.column(name).type)
        session, made = native(connection), dict[str, str | None]()
        given = [text for text in dict.fromkeys(texts) if text is not None]
        numbered = "m" if name.lower() == "n" else "n"
        as_column = _SELECTED.get(own.base, "{}")
        for start in range(0, len(given), _CONVERTED):
            part = given[start : start + _CONVERTED]
            union = " UNION ALL ".join(
                f"SELECT {number} AS {numbered}, {as_column.format(own.literal(text))} AS {own.quoted}"
                for number, text in enumerate(part)
            )
            for number, text in session.run(f"SELECT t.{numbered}, {own.canonical('t', kind)} FROM ({union}) AS t"):
                made[part[int(number)]] = text
        return [None if text is None else made[text] for text in texts]


_CONVERTED = 500
"""Values of one statement."""
_SELECTED = {
    "date": "CAST({} AS DATE)",
    "datetime": "CAST({} AS DATETIME(6))",
    "timestamp": "CAST({} AS DATETIME(6))",
    "time": "CAST({} AS TIME(6))",
    "double": "CAST({} AS DOUBLE)",
    "float": "CAST({} AS DOUBLE)",
}
"""How the text of a value becomes one of the column's type."""


class LoggedDigester(MySQLDigester):
    """Computes digests over the log's texts."""

    digest = LoggedDigest


class LoggedRows(MySQLRows, MasterRows):
    """Tables and rows of a master."""

    formats = frozenset({RowFormat.CSV})

    def tables(self, connection: Session) -> list[TableName]:
        """Every table of the server's databases that the account sees, but for the server's own."""
        session = native(connection)
        found = session.read_schema(sql_files.render("mysql", "binlog_tables", tables="TRUE"))
        names = [(database, name) for database, name, _, _ in found if database.lower() not in catalog.OF_SERVER]
        return sorted(catalog.table_of(session, database, name) for database, name in names)

    def key_order(self, connection: Session, shape: TableShape) -> LoggedKeyOrder:
        return LoggedKeyOrder(shape)

    def stream(
        self, connection: Session, query: str, row_format: RowFormat, taken: Callable[[], None] | None = None
    ) -> LoggedStream:
        assert row_format is RowFormat.CSV, row_format
        assert isinstance(query, BlockQuery), "made by `LoggedKeyOrder`"
        return LoggedStream(native(connection), query, taken)

    def reading_exported(
        self, connection: Session, table: TableShape, exported: str, marker: Position
    ) -> AbstractContextManager[BlockRead]:
        """Raises `SnapshotGone`: no session can have another one's snapshot."""
        raise SnapshotGone(f"{native(connection).server}: the server shares no snapshots")

    def export_snapshot(self, connection: Session) -> str:
        """Nothing: no other session can have it."""
        return ""

    def table_digest(self, shape: TableShape, of: ComparedTable) -> TableDigest:
        return LoggedDigest(shape, of.columns, of.key)

    def texts_of(self, shape: TableShape, name: str) -> ColumnTexts:
        return LoggedTexts(name, shape.column(name).type)

    def special(
        self, connection: Session, table: TableShape, column_types: Mapping[str, ColumnType]
    ) -> tuple[str, Special, dict[str, str | None]] | None:
        read = native(connection).run
        return special_row(LoggedTexts, read, (catalog.qualified(table.table), "LIMIT 1"), table, column_types)
