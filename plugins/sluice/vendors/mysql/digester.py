"""Digests of tables for comparisons (`sluice.database.digests.Digester`), over canonical texts alone: docs/types.md."""

from collections.abc import Collection, Sequence

from sluice.database.digests import Compared, Copies, DigestedRow, Method, Part, TableDigest, Texts
from sluice.database.errors import StatementFailed
from sluice.database.registry import NotAMaster
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.logical_type import Kind
from sluice.model.shape import TableShape
from sluice.vendors.common import digests as common
from sluice.vendors.common.digests import DIGITS, SHOWN, in_blocks
from sluice.vendors.mysql import names
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import native

WHOLE = frozenset({"smallint", "int", "bigint"})


class Digest(common.Digest):
    # Texts of the statements

    @property
    def source(self) -> str:
        return f"{names.place(self.shape.table)} t"

    def own(self, name: str) -> ColumnTexts:
        return ColumnTexts(name, self.shape.column(name).type)

    def text(self, name: str) -> str:
        """The canonical text of a compared column."""
        kind = next(column.logical.kind for column in self.columns if column.name == name)
        return self.own(name).canonical("t", kind)

    def joined(self, wanted: Sequence[str]) -> str:
        """The text of these columns of a row."""
        kinds = self.kinds
        parts = []
        for name in wanted:
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
        """The digest of a row; NULL where its text was too long for the server."""
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
                    f"{session.place}: {self.shape.table} has values that are too long for the server's "
                    "max_allowed_packet: raise it, to twice the longest value"
                )
            digests.append((int(block), int(rows), str(total)))
        return digests

    def of_rows(self, connection: Session, blocks: Collection[int]) -> list[DigestedRow]:
        selected = ", ".join([self.row(), *map(self.text, self.key)])
        result = native(connection).run(f"SELECT {selected} FROM {self.source} WHERE {self.within(blocks)}")
        return [(int(digest), *texts) for digest, *texts in result]

    def copies(self, connection: Session, blocks: Collection[int]) -> list[Copies]:
        texts = ", ".join(f"{self.text(column.name)} AS c{place}" for place, column in enumerate(self.columns))
        places = ", ".join(f"c{place}" for place in range(len(self.columns)))
        result = native(connection).run(
            f"SELECT COUNT(*), {places} FROM (SELECT {texts} FROM {self.source} WHERE {self.within(blocks)}) AS s "
            f"GROUP BY {places}"
        )
        return [(int(count), *row) for count, *row in result]

    def rows_of_keys(
        self, connection: Session, keys: Sequence[Texts]
    ) -> list[tuple[Texts, dict[str, str | None] | None]]:
        wanted = self.names
        texts = ", ".join(map(self.text, wanted)).replace("%", "%%")
        own = [self.own(name) for name in self.key]
        match = " AND ".join(
            f"t.{column.quoted.replace('%', '%%')} = {column.value(f'%(k{place})s')}"
            for place, column in enumerate(own)
        )
        statement = f"SELECT {texts} FROM {self.source.replace('%', '%%')} WHERE {match}"
        rows = []
        for key in keys:
            row = native(connection).run(statement, {f"k{place}": text for place, text in enumerate(key)}).fetchone()
            rows.append((key, None if row is None else dict(zip(wanted, row, strict=True))))
        return rows

    def converted(self, connection: Session, name: str, texts: Sequence[str | None]) -> list[str | None]:
        raise NotAMaster("mysql")

    def drawn(self, connection: Session, rows: int, wanted: int) -> list[Key]:
        texts = ", ".join(map(self.text, self.key))
        share = min(1.0, wanted / max(1, rows))
        result = native(connection).run(
            f"SELECT {texts} FROM {self.source} WHERE RAND() < {share:.10f} ORDER BY RAND() LIMIT {2 * wanted + 100}"
        )
        return [tuple(row) for row in result]


class Digester(common.Digester):
    """See the protocol."""

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
        return Digest(shape, columns, key, bounds, classes)

    def hold(self, connection: Session, table: TableShape) -> None:
        """Holds the table's definition: a transaction keeps the definition of a table that it has read."""
        native(connection).run(f"SELECT 1 FROM {names.place(table.table)} LIMIT 0")

    def ranged(self, type_name: str) -> bool:
        return ColumnTexts("", type_name).base in WHOLE

    def bounds(self, connection: Session, shape: TableShape, rows: int) -> list[str]:
        """Empty: bounds are the master's."""
        return []


def _number(text: str, first: int) -> str:
    """The number in some digits of the MD5 of a text, from the `first` on."""
    return f"CAST(CONV(SUBSTRING(MD5({text}), {first}, {DIGITS}), 16, 10) AS SIGNED)"
