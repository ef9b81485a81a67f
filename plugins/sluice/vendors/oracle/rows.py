"""Rows of an Oracle master and of a slave: parts that a person names, and queries."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

from sluice import sql_files
from sluice.counted import counted
from sluice.database.digests import ComparedTable, TableDigest, Texts
from sluice.database.errors import StatementFailed
from sluice.database.rows import (
    BlockRead,
    Estimate,
    KeyOrder,
    MasterRows,
    MasterSelection,
    RowFormat,
    RowStream,
    SelectionInvalid,
)
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.key_ranges import Match
from sluice.model.logical_type import ColumnType, Special
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.shape import TableShape
from sluice.vendors.common.catalog import Catalog
from sluice.vendors.common.queries import PlainQueries
from sluice.vendors.common.row_selection import PlainSelection, condition
from sluice.vendors.common.rows import PlainRows, special_row
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.digester import Digest
from sluice.vendors.oracle.key_order import OracleKeyOrder, ordered
from sluice.vendors.oracle.session import native
from sluice.vendors.oracle.source import blocks
from sluice.vendors.oracle.source.row_stream import RowStream as OracleRowStream


class OracleRows(PlainRows, MasterRows):
    """Tables and rows, of a master and of a slave."""

    catalog: Catalog = catalog
    formats = frozenset({RowFormat.CSV})

    def stream(
        self, connection: Session, query: str, row_format: RowFormat, taken: Callable[[], None] | None = None
    ) -> RowStream:
        return OracleRowStream(connection, query, row_format, taken)

    def tables(self, connection: Session) -> list[TableName]:
        """Every table that the account has a privilege on, Sluice's own too, by its owner; none of Oracle's own."""
        rows = native(connection).run(sql_files.render("oracle", "tables"))
        return [TableName(owner, name) for owner, name in rows]

    def estimates(self, connection: Session, tables: Sequence[TableName]) -> dict[TableName, Estimate]:
        return catalog.estimates(connection, tables)

    def key_order(self, connection: Session, shape: TableShape) -> OracleKeyOrder:
        return OracleKeyOrder(shape)

    def reading_exported(
        self, connection: Session, table: TableShape, exported: str, marker: Position
    ) -> AbstractContextManager[BlockRead]:
        return blocks.reading_exported(connection, table, exported, marker)

    def begin_snapshot(self, connection: Session, exported: str | None = None) -> None:
        """A master's snapshot is an SCN. A slave's is a transaction; with `exported` CHECKPOINT must say the same."""
        if exported is None or not blocks.enter(native(connection), exported):
            super().begin_snapshot(connection, exported)

    def export_snapshot(self, connection: Session) -> str:
        """For a master its SCN; for a slave the digest of CHECKPOINT."""
        return blocks.exported(native(connection)) or super().export_snapshot(connection)

    def server_of(self, connection: Session) -> str:
        return native(connection).server

    def begin_reading(self, connection: Session) -> None:
        native(connection).begin_read_only()

    def checkpoints(self, connection: Session) -> list[str]:
        session = native(connection)
        return [name for (name,) in session.run(sql_files.render("oracle", "checkpoints"), {"owner": session.schema})]

    def table_digest(self, shape: TableShape, of: ComparedTable) -> TableDigest:
        return Digest(shape, of.columns, of.key)

    def counts(self, connection: Session, shape: TableShape, of: ComparedTable, rows: Sequence[Texts]) -> list[int]:
        own = [ColumnTexts(column.name, shape.column(column.name).type) for column in of.columns]
        match = " AND ".join(column.same("t", f":v{index}") for index, column in enumerate(own))
        query = f"SELECT COUNT(*) FROM {names.qualified(of.table)} t WHERE {match}"
        counts = []
        for row in rows:
            values = {f"v{index}": column.bind(text) for index, (column, text) in enumerate(zip(own, row, strict=True))}
            (count,) = native(connection).run(query, values).fetchone() or (0,)
            counts.append(int(count))
        return counts

    def special(
        self, connection: Session, table: TableShape, column_types: Mapping[str, ColumnType]
    ) -> tuple[str, Special, dict[str, str | None]] | None:
        read = native(connection).run
        return special_row(ColumnTexts, read, (names.qualified(table.table), "AND ROWNUM <= 1"), table, column_types)


def _recast(connection: Session, own: ColumnTexts, value: str, shape: TableShape) -> str:
    try:
        row = (
            native(connection)
            .run(
                f"SELECT {own.text('t')} FROM (SELECT {own.value(':given')} AS {own.quoted} FROM DUAL) t",
                {"given": own.bind(value)},
            )
            .fetchone()
        )
    except (StatementFailed, ValueError):
        row = None
    text = ColumnTexts.shown(row[0]) if row else None
    if text is None:
        raise SelectionInvalid(f"{value!r} is no value of {shape.table}.{own.name}, which is {own.type}")
    return text


class OracleSelection(PlainSelection, MasterSelection):
    """Parts of a table that a person names."""

    checking = "SELECT 1 FROM {source} t WHERE 1 = 0 AND ({where})"

    def run(self, connection: Session, query: str) -> Iterable[Sequence[str | None]]:
        return native(connection).run(query)

    def shown(self, error: StatementFailed) -> str:
        return error.server_code

    def key_of(self, connection: Session, shape: TableShape, text: str) -> Key:
        """A key as a person writes it: the value, or a JSON list of one value a key column; its canonical texts."""
        values = [text]
        if len(shape.key) > 1 or text.lstrip().startswith("["):
            try:
                given = json.loads(text)
            except ValueError:
                given = None
            if not isinstance(given, list) or len(given) != len(shape.key):
                values_needed = counted(len(shape.key), "value")
                raise SelectionInvalid(f"{text!r} is no key of {shape.table}: write a JSON list of {values_needed}")
            values = [str(value) for value in given]
        return tuple(
            _recast(connection, ColumnTexts(column.name, column.type), value, shape)
            for column, value in zip(shape.key, values, strict=True)
        )

    def runs(self, connection: Session, order: KeyOrder, where: str, lo: Key | None, hi: Key | None) -> Iterator[Match]:
        """The runs of neighboring rows that match `where`, in key order, between `lo` and `hi`."""
        columns = [ColumnTexts(column.name, column.type) for column in order.shape.key]
        texts = ", ".join(column.text("t") for column in columns)
        by = ", ".join(f"t.{column.quoted}" for column in columns)
        query = (
            f"SELECT CASE WHEN {condition(where)} THEN 1 ELSE 0 END, {texts} FROM {order.source} t "
            f"WHERE {order.within(lo, hi)} ORDER BY {by}"
        )
        stream = native(connection).stream(query)
        begun: Key | None = None
        skipped = 0
        try:
            next(stream)  # names of columns
            for rows in stream:
                for matches, *values in rows:
                    key = tuple(ColumnTexts.shown(text) or "" for text in values)
                    if matches and begun is None:
                        begun = key
                    elif not matches and begun is not None:
                        yield Match((begun, key), skipped)
                        begun, skipped = None, 1
                    elif not matches:
                        skipped += 1
        except StatementFailed as error:
            raise SelectionInvalid(
                f"where: {where!r} cannot be evaluated on {order.shape.table}: {error.server_code}"
            ) from None
        if begun is not None:
            yield Match((begun, hi), skipped)

    def in_order(self, connection: Session, shape: TableShape, keys: Sequence[Key]) -> list[Key]:
        """`keys` in the server's order."""
        del connection
        return sorted(keys, key=partial(ordered, shape))


class OracleQueries(PlainQueries):
    """Queries of people."""

    begins = ("SELECT", "WITH")

    def rows(self, connection: Session, statement: str, most: int) -> Iterable[tuple[object, ...]]:
        session = native(connection)
        session.begin_read_only()
        try:
            text = f"SELECT * FROM ({statement.strip().rstrip(';')}\n) WHERE ROWNUM <= {most}"
            return session.run(text).fetchall()
        finally:
            session.end_read_only()
