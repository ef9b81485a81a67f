"""Rows of a MySQL or MariaDB slave: the order of keys, digests, parts that a person names, queries."""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from sluice import sql_files
from sluice.database.digests import Compared, ComparedTable, Copies, DigestedRow, Method, Part, TableDigest, Texts
from sluice.database.errors import StatementFailed
from sluice.database.registry import not_a_master
from sluice.database.rows import Estimate
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.logical_type import Kind
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common.catalog import Catalog
from sluice.vendors.common.digests import DIGITS, SHOWN, in_blocks
from sluice.vendors.common.digests import Digest as PlainDigest
from sluice.vendors.common.digests import Digester as PlainDigester
from sluice.vendors.common.key_order import KeyOrder
from sluice.vendors.common.queries import PlainQueries
from sluice.vendors.common.row_selection import PlainSelection
from sluice.vendors.common.rows import PlainRows
from sluice.vendors.mysql import catalog
from sluice.vendors.mysql.catalog import qualified
from sluice.vendors.mysql.column_types import ColumnTexts
from sluice.vendors.mysql.connection import native

_ALIKE = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "date", "datetime", "timestamp"})
"""Types whose values every database orders alike. A UUID of MariaDB is not among them, nor is a text."""


class MySQLKeyOrder(KeyOrder):
    """How the server orders the keys of a table."""

    @cached_property
    def columns(self) -> tuple[ColumnTexts, ...]:
        return tuple(ColumnTexts(column.name, column.type) for column in self.shape.key)

    @property
    def same_everywhere(self) -> bool:
        return all(column.base in _ALIKE for column in self.columns)

    @property
    def source(self) -> str:
        return qualified(self.shape.table)

    def one_after(self, rows: int) -> str:
        return f"LIMIT 1 OFFSET {rows}"

    def first_row(self, connection: Session, query: str) -> tuple[str | None, ...] | None:
        return native(connection).run(query).fetchone()


WHOLE = frozenset({"smallint", "int", "bigint"})


class MySQLDigest(PlainDigest):
    """The expressions of a table's digests."""

    # Texts of the statements

    @property
    def source(self) -> str:
        return f"{qualified(self.shape.table)} t"

    def own(self, name: str) -> ColumnTexts:
        return ColumnTexts(name, self.shape.column(name).type)

    def text(self, name: str) -> str:
        """The canonical text of a compared column."""
        kind = next(column.logical.kind for column in self.columns if column.name == name)
        return self.own(name).canonical("t", kind)

    def joined(self, names: Sequence[str]) -> str:
        """The text of these columns of a row."""
        kinds = self.kinds
        parts = []
        for name in names:
            own = self.own(name)
            if kinds[name] in SHOWN:
                part = self.text(name)
            elif kinds[name] is Kind.BINARY:
                part = f"MD5(CONCAT('\\\\x', LOWER(HEX(t.{own.quoted}))))"
            else:
                part = f"MD5({self.text(name)})"
            # Not COALESCE: a text that is too long for the server is NULL as well, and the row's shall be NULL then.
            parts.append(f"IF(t.{own.quoted} IS NULL, '', {part}), ','")
        return f"CONCAT({', '.join(parts)})" if parts else "''"

    def row(self) -> str:
        """The digest of a row; NULL if its text was too long for the server."""
        return _number(self.joined(self.names), 1)

    def block(self) -> str:
        """The number of a row's block."""
        if self.bounds:
            return f"INTERVAL(t.{self.own(self.key[0]).quoted}, {', '.join(self.bounds)})"
        if self.classes == 1:
            return "0"
        number = _number(self.joined(self.key), 1 + DIGITS) if self.key else self.row()
        return f"({number} & {self.classes - 1})"

    def within(self, blocks: Collection[int]) -> str:
        """The condition that a row is in one of `blocks`."""
        if not blocks:
            return "1 = 0"
        if self.bounds:
            return in_blocks(f"t.{self.own(self.key[0]).quoted}", self.bounds, blocks)
        return f"{self.block()} IN ({', '.join(map(str, sorted(blocks)))})"

    # Answers

    def of_blocks(self, connection: Session, part: Part) -> list[tuple[int, int, str]]:
        session, digests = native(connection), []
        sums = session.run(
            f"SELECT b, COUNT(*), COUNT(h), CAST(COALESCE(SUM(h), 0) AS CHAR) FROM (SELECT {self.block()} AS b, "
            f"{self.row()} AS h FROM {self.source}) AS s GROUP BY b"
        )
        for block, rows, digested, total in sums:
            if rows != digested:
                raise StatementFailed(
                    f"{session.server}: {self.shape.table} has values that are too long for the server's "
                    "max_allowed_packet: raise it, to twice the longest value"
                )
            digests.append((int(block), int(rows), str(total)))
        return digests

    def of_rows(self, connection: Session, blocks: Collection[int]) -> list[DigestedRow]:
        selected = ", ".join([self.row(), *map(self.text, self.key)])
        result = native(connection).run(f"SELECT {selected} FROM {self.source} WHERE {self.within(blocks)}")
        return [(int(digest), *texts) for digest, *texts in result]

    def copies(self, connection: Session, blocks: Collection[int]) -> list[Copies]:
        texts = ", ".join(f"{self.text(column.name)} AS c{index}" for index, column in enumerate(self.columns))
        columns = ", ".join(f"c{index}" for index in range(len(self.columns)))
        result = native(connection).run(
            f"SELECT COUNT(*), {columns} FROM (SELECT {texts} FROM {self.source} WHERE {self.within(blocks)}) AS s "
            f"GROUP BY {columns}"
        )
        return [(int(count), *row) for count, *row in result]

    def rows_of_keys(
        self, connection: Session, keys: Sequence[Texts]
    ) -> list[tuple[Texts, dict[str, str | None] | None]]:
        names = self.names
        texts = ", ".join(map(self.text, names)).replace("%", "%%")
        own = [self.own(name) for name in self.key]
        match = " AND ".join(
            f"t.{column.quoted.replace('%', '%%')} = {column.value(f'%(k{index})s')}"
            for index, column in enumerate(own)
        )
        statement = f"SELECT {texts} FROM {self.source.replace('%', '%%')} WHERE {match}"
        rows = []
        for key in keys:
            row = native(connection).run(statement, {f"k{index}": text for index, text in enumerate(key)}).fetchone()
            rows.append((key, None if row is None else dict(zip(names, row, strict=True))))
        return rows

    def converted(self, connection: Session, name: str, texts: Sequence[str | None]) -> list[str | None]:
        raise not_a_master("mysql")

    def drawn(self, connection: Session, rows: int, count: int) -> list[Key]:
        texts = ", ".join(map(self.text, self.key))
        share = min(1.0, count / max(1, rows))
        result = native(connection).run(
            f"SELECT {texts} FROM {self.source} WHERE RAND() < {share:.10f} ORDER BY RAND() LIMIT {2 * count + 100}"
        )
        return [tuple(row) for row in result]


class MySQLDigester(PlainDigester):
    """Computes digests of tables."""

    digest: type[MySQLDigest] = MySQLDigest

    def table(
        self,
        shape: TableShape,
        columns: tuple[Compared, ...],
        key: tuple[str, ...],
        method: Method,
        bounds: tuple[str, ...] = (),
        classes: int = 1,
    ) -> TableDigest:
        assert method is Method.CANONICAL, method
        return self.digest(shape, columns, key, bounds, classes)

    def hold(self, connection: Session, table: TableShape) -> None:
        """Holds the table's definition: a transaction keeps the definition of a table that it has read."""
        native(connection).run(f"SELECT 1 FROM {qualified(table.table)} LIMIT 0")

    def ranged(self, type_name: str) -> bool:
        return ColumnTexts("", type_name).base in WHOLE

    def bounds(self, connection: Session, shape: TableShape, rows: int) -> list[str]:
        """Empty: bounds are the master's."""
        return []


def _number(text: str, first: int) -> str:
    """The number in some digits of the MD5 of a text, from the `first` on."""
    return f"CAST(CONV(SUBSTRING(MD5({text}), {first}, {DIGITS}), 16, 10) AS SIGNED)"


class MySQLRows(PlainRows):
    """Tables and rows of a slave."""

    catalog: Catalog = catalog

    def tables(self, connection: Session) -> list[TableName]:
        """Every table of the connection's database, Sluice's own too."""
        session = native(connection)
        statement = sql_files.render(
            "mysql", "relations", names="table_schema = %(here)s AND table_type = 'BASE TABLE'"
        )
        rows = session.read_schema(statement, {"here": session.info.database}).fetchall()
        return sorted(catalog.table_of(session, database, name) for database, name, _ in rows)

    def estimates(self, connection: Session, tables: Sequence[TableName]) -> dict[TableName, Estimate]:
        session = native(connection)
        if not tables:
            return {}
        condition, values = catalog.among(session, tables)
        rows = session.read_schema(sql_files.render("mysql", "estimates", tables=condition), values).fetchall()
        return {
            catalog.table_of(session, database, name): Estimate(None if count is None else int(count), int(size))
            for database, name, count, size in rows
        }

    def key_order(self, connection: Session, shape: TableShape) -> MySQLKeyOrder:
        return MySQLKeyOrder(shape)

    def server_of(self, connection: Session) -> str:
        return native(connection).server

    def begin_reading(self, connection: Session) -> None:
        session = native(connection)
        session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

    def checkpoints(self, connection: Session) -> list[str]:
        session = native(connection)
        found = session.read_schema(sql_files.render("mysql", "checkpoints"), {"here": session.info.database})
        return [name for (name,) in found]

    def table_digest(self, shape: TableShape, of: ComparedTable) -> TableDigest:
        return MySQLDigest(shape, of.columns, of.key)

    def texts_of(self, shape: TableShape, name: str) -> ColumnTexts:
        return ColumnTexts(name, shape.column(name).type)

    def counts(self, connection: Session, shape: TableShape, of: ComparedTable, rows: Sequence[Texts]) -> list[int]:
        own = [self.texts_of(shape, column.name) for column in of.columns]
        match = " AND ".join(
            f"t.{column.quoted} <=> {column.value(f'%(v{number})s')}" for number, column in enumerate(own)
        )
        query = f"SELECT COUNT(*) FROM {qualified(of.table)} t WHERE {match}"
        counts = []
        for row in rows:
            values = {f"v{number}": text for number, text in enumerate(row)}
            (count,) = native(connection).run(query, values).fetchone() or (0,)
            counts.append(int(count))
        return counts


class MySQLSelection(PlainSelection):
    """Which rows match the master says, whose rows come; here those are looked for that the master has not."""

    checking = "EXPLAIN SELECT 1 FROM {source} WHERE ({where})"

    def run(self, connection: Session, query: str) -> Iterable[Sequence[str | None]]:
        return native(connection).run(query)

    def shown(self, error: StatementFailed) -> str:
        return f"error {error.server_code}"


class MySQLQueries(PlainQueries):
    """Queries of people."""

    begins = ("SELECT", "WITH", "VALUES", "TABLE")

    def rows(self, connection: Session, statement: str, most: int) -> Iterable[tuple[object, ...]]:
        session = native(connection)
        session.run(f"SET sql_select_limit = {most}")
        session.run("START TRANSACTION READ ONLY")
        try:
            return session.run(statement).fetchall()
        finally:
            session.run("ROLLBACK")
