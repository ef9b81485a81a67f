"""Digests of tables for comparisons (`sluice.database.digests.Digester`), over canonical texts alone: docs/types.md."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sluice import sql_files
from sluice.database.digests import ROWS_A_BLOCK, Compared, Copies, DigestedRow, Method, Part, TableDigest, Texts
from sluice.database.session import Session, in_lists
from sluice.model.blocks import Key
from sluice.model.shape import TableShape
from sluice.vendors.common import digests as common
from sluice.vendors.common.digests import DIGITS, SHOWN, in_blocks
from sluice.vendors.oracle import names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.session import Value, native, quoted

MOST_BYTES = 4_000
"""The highest number of bytes of a text that the server hashes directly; a longer one is a LOB."""
_SHOWN_BYTES = 60


class Digest(common.Digest):
    """The expressions of a table's digests."""

    # Texts of the statements

    @property
    def source(self) -> str:
        return f"{names.qualified(self.shape.table)} t"

    @property
    def functions(self) -> str:
        """The beginning of a query that digests rows."""
        with_bytes = any(self.own(column.name).base == "BLOB" for column in self.columns)
        return f"{sql_files.render('oracle', 'blob_hex').strip()} " if with_bytes else ""

    def own(self, name: str) -> ColumnTexts:
        return ColumnTexts(name, self.shape.column(name).type)

    def text(self, name: str) -> str:
        """The expression of a column in a query."""
        return self.own(name).text("t")

    def joined(self, names: Sequence[str]) -> str:
        """The text of these columns of a row."""
        kinds = self.kinds
        parts: list[str] = []
        for name in names:
            part = self.text(name) if kinds[name] in SHOWN else _md5_of(self.own(name))
            # What begins as a LOB continues as one.
            parts.append(f"{part} || ','" if parts or not self.long(names) else f"TO_CLOB({part} || ',')")
        return " || ".join(parts) or "''"

    def long(self, names: Sequence[str]) -> bool:
        """Whether the text of these columns may be longer than the server's own function hashes."""
        return len(names) * _SHOWN_BYTES > MOST_BYTES

    def row(self) -> str:
        """The digest of a row."""
        return self._number(self.names, 1)

    def block(self) -> str:
        """The number of a row's block."""
        if self.bounds:
            name = f"t.{self.own(self.key[0]).quoted}"
            ends = " ".join(f"WHEN {name} < {bound} THEN {number}" for number, bound in enumerate(self.bounds))
            return f"CASE {ends} ELSE {len(self.bounds)} END"
        if self.classes == 1:
            return "0"
        number = self._number(self.key, 1 + DIGITS) if self.key else self.row()
        return f"MOD({number}, {self.classes})"

    def _number(self, names: Sequence[str], first: int) -> str:
        """The number in some digits of the MD5 of these columns' text, from the `first` on."""
        digits = _md5(self.joined(names), long=self.long(names))
        return f"TO_NUMBER(SUBSTR({digits}, {first}, {DIGITS}), '{'X' * DIGITS}')"

    def within(self, blocks: Collection[int]) -> str:
        """The condition that a row is in one of `blocks`."""
        if not blocks:
            return "1 = 0"
        if self.bounds:
            return in_blocks(f"t.{self.own(self.key[0]).quoted}", self.bounds, blocks)
        return in_lists(self.block(), [str(number) for number in sorted(blocks)])

    # Answers

    def of_blocks(self, connection: Session, part: Part) -> list[tuple[int, int, str]]:
        sums = native(connection).run(
            f"{self.functions}SELECT s.b, COUNT(*), TO_CHAR(COALESCE(SUM(s.h), 0)) FROM (SELECT {self.block()} AS b, "
            f"{self.row()} AS h FROM {self.source}) s GROUP BY s.b"
        )
        return [(int(block), int(rows), str(total)) for block, rows, total in sums]

    def of_rows(self, connection: Session, blocks: Collection[int]) -> list[DigestedRow]:
        selected = ", ".join([self.row(), *map(self.text, self.key)])
        text = f"{self.functions}SELECT {selected} FROM {self.source} WHERE {self.within(blocks)}"
        result = native(connection).run(text)
        return [(int(digest), *map(ColumnTexts.shown, texts)) for digest, *texts in result]

    def copies(self, connection: Session, blocks: Collection[int]) -> list[Copies]:
        names = self.names
        texts = ", ".join(map(self.text, names))
        counts: Counter[Texts] = Counter()
        # LOBs cannot be grouped.
        for row in native(connection).run(f"SELECT {texts} FROM {self.source} WHERE {self.within(blocks)}"):
            counts[tuple(map(ColumnTexts.shown, row))] += 1
        return [(count, *row) for row, count in counts.items()]

    def rows_of_keys(
        self, connection: Session, keys: Sequence[Texts]
    ) -> list[tuple[Texts, dict[str, str | None] | None]]:
        names = self.names
        own = [self.own(name) for name in self.key]
        match = " AND ".join(f"t.{column.quoted} = {column.value(f':k{index}')}" for index, column in enumerate(own))
        statement = f"SELECT {', '.join(map(self.text, names))} FROM {self.source} WHERE {match}"
        rows: list[tuple[Texts, dict[str, str | None] | None]] = []
        for key in keys:
            values: dict[str, Value] = {
                f"k{index}": column.bind(text) for index, (column, text) in enumerate(zip(own, key, strict=True))
            }
            row = native(connection).run(statement, values).fetchone()
            rows.append((key, None if row is None else dict(zip(names, map(ColumnTexts.shown, row), strict=True))))
        return rows

    def converted(self, connection: Session, name: str, texts: Sequence[str | None]) -> list[str | None]:
        own = self.own(name)
        if own.kind not in SHOWN:
            return list(texts)
        text = f"SELECT {self.text(name)} FROM (SELECT {own.value(':given')} AS {own.quoted} FROM DUAL) t"
        session = native(connection)
        return [
            None if given is None else ColumnTexts.shown(row[0])
            for given in texts
            for row in session.run(text, {"given": own.bind(given)})
        ]

    def drawn(self, connection: Session, rows: int, count: int) -> list[Key]:
        texts = ", ".join(map(self.text, self.key))
        share = min(1.0, count / max(1, rows))
        result = native(connection).run(
            f"SELECT {texts} FROM {self.source} WHERE DBMS_RANDOM.VALUE < {share:.10f} ORDER BY DBMS_RANDOM.VALUE "
            f"FETCH FIRST {2 * count + 100} ROWS ONLY"
        )
        return [tuple(ColumnTexts.shown(text) or "" for text in row) for row in result]


@dataclass(frozen=True)
class RowsDigest(Digest):
    """The digests of a table with a LONG, LONG RAW or XMLTYPE, which the server cannot hash: its rows are hashed
    here."""

    def of_blocks(self, connection: Session, part: Part) -> list[tuple[int, int, str]]:
        counts: Counter[int] = Counter()
        sums: Counter[int] = Counter()
        for block, digest, _ in self._rows(connection, "1 = 1"):
            counts[block] += 1
            sums[block] += digest
        return [(block, rows, str(sums[block])) for block, rows in counts.items()]

    def of_rows(self, connection: Session, blocks: Collection[int]) -> list[DigestedRow]:
        return [(digest, *key) for _, digest, key in self._rows(connection, self.within(blocks))]

    def _rows(self, connection: Session, where: str) -> Iterator[tuple[int, int, list[str | None]]]:
        """For each row its block, its digest and its key."""
        names = self.names
        hidden = [column.logical.kind not in SHOWN for column in self.columns]
        selected = ", ".join([self.block(), *map(self.text, (*names, *self.key))])
        stream = native(connection).stream(f"SELECT {selected} FROM {self.source} WHERE {where}")
        next(stream)  # names of columns
        for rows in stream:
            for block, *values in rows:
                texts = list(map(ColumnTexts.shown, values))
                parts = (
                    _hashed(text) if hides and text is not None else text or ""
                    for text, hides in zip(texts, hidden, strict=False)
                )
                row = "".join(f"{part}," for part in parts)
                yield int(block), int(_hashed(row)[:DIGITS], 16), texts[len(names) :]


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
        unread = any(ColumnTexts(column.name, shape.column(column.name).type).unread for column in columns)
        return (RowsDigest if unread else Digest)(shape, columns, key, bounds, classes)

    def hold(self, connection: Session, table: TableShape) -> None:
        """Does nothing: the table cannot be held. A statement fails if it was altered since the snapshot
        (ORA-01466)."""
        native(connection).run(f"SELECT 1 FROM {names.qualified(table.table)} WHERE 1 = 0")

    def ranged(self, type_name: str) -> bool:
        return type_name.startswith("NUMBER(") and type_name.endswith(",0)")

    def bounds(self, connection: Session, shape: TableShape, rows: int) -> list[str]:
        """Bounds of the first column of the key, a whole number: evenly between the lowest and the highest value."""
        name = f"t.{quoted(shape.key[0].name)}"
        row = (
            native(connection)
            .run(f"SELECT TO_CHAR(MIN({name})), TO_CHAR(MAX({name})) FROM {names.qualified(shape.table)} t")
            .fetchone()
        )
        if row is None or row[0] is None or rows <= ROWS_A_BLOCK:
            return []
        low, high, blocks = int(row[0]), int(row[1]), -(-rows // ROWS_A_BLOCK)
        return [str(bound) for bound in sorted({low + (high - low) * index // blocks for index in range(1, blocks)})]


def _hashed(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _md5_of(own: ColumnTexts) -> str:
    """The MD5 of a value's canonical text; NULL for NULL."""
    key = f"t.{own.quoted}"
    if own.base == "BLOB":
        # Of bytes no expression makes a text of any length.
        text = "TO_CLOB('\\x') || " + f"sluice_hex({key})"
        return f"CASE WHEN {key} IS NOT NULL THEN {_md5(text, long=True)} END"
    empty = f"WHEN {own.is_empty('t')} THEN '{_hashed('')}' " if own.may_be_empty else ""
    return f"CASE {empty}WHEN {key} IS NOT NULL THEN {_md5(own.canonical('t'), long=own.long)} END"


def _md5(text: str, *, long: bool) -> str:
    """The MD5 of a text in UTF-8, 32 hexadecimal digits in small letters."""
    hashed = f"DBMS_CRYPTO.HASH(TO_CLOB({text}), 2)" if long else f"STANDARD_HASH({text}, 'MD5')"
    return f"LOWER(RAWTOHEX({hashed}))"
