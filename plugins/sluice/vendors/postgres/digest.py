"""Digests of a PostgreSQL table's rows: the texts of the statements, alike on master and slave.

A row's digest is a 64-bit hash of its replicated columns, by value or canonical text. A block's digest is how many rows
it has and the sum of theirs: no order, and equal rows count as often as they are there. A block is a range of
the key's first column where every database orders that alike (`RANGED`); else it is a class of the key's hash,
of the whole row's for a table without a key. Two blocks that differ have the same digest once in 2^64.
"""

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sluice.database.digests import MOST_BLOCKS, ROWS_A_BLOCK, Compared, Method, Texts
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.shape import TableShape
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.arrays import array_literal, array_type
from sluice.vendors.postgres.connection import literal, native, quoted
from sluice.vendors.postgres.key_order import key_order, typed, value_text

RANGED = frozenset(
    {"smallint", "integer", "bigint", "date", "uuid", "timestamp without time zone", "timestamp with time zone"}
)
"""Types of fixed length whose values every database orders alike."""
_PLAIN = RANGED | {"numeric", "real", "double precision", "boolean", "oid", "bytea"}
"""Types whose values' texts are never empty and have no comma."""
_TEXTS = frozenset({"text", "character varying"})
WHOLE = frozenset({"smallint", "integer", "bigint"})
NARROW = frozenset({"smallint", "integer", "date", "uuid", "boolean"})
"""Types whose own hash tells their values apart: of 32 bits or fewer, or hashed byte by byte."""
SENT = {
    "bigint": "int8send",
    "timestamp without time zone": "timestamp_send",
    "timestamp with time zone": "timestamptz_send",
}
"""Types whose binary form is hashed, and what makes it; of a numeric with a scale `numeric_send`."""
SAMPLED_KEYS = 100
"""How many keys of a block are looked at, on average, to find where blocks should end."""
PAGES_A_PART = 65_536
"""Pages that one statement reads, half a gigabyte."""
_BLOCKS_A_STRETCH, _UNEVEN_STRETCH, _UNEVEN_BLOCK = 30, 2.5, 20
"""Keys lie evenly when, of a sample, no stretch of so many blocks has more than so many times its share, and no block
so many times: a sample has whole pages, several of some blocks and none of others."""
_HALF = 2**15
_BLOCK, _NUMBER = struct.Struct(">hh"), struct.Struct(">q")


RECORD = (  # a value of each type that is not hashed as a text
    "1::smallint, -2::int, 3::bigint, date '2020-02-29', true, uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', NULL::int, "
    "int8send(-3), numeric_send(-12.50::numeric(9,2)), timestamp_send(timestamp '2020-02-29 12:00:00.000001'), "
    "timestamptz_send(timestamptz '2020-02-29 12:00+00'), 'x'::text COLLATE \"C\""
)
PROBES = ("", "0", "Sluice", "x" * 200)
"""In letters that every encoding has: a text that a database cannot hold would fail there."""


@dataclass(frozen=True)
class Digest:
    """How one side's table is digested: what is compared, and into which blocks it falls."""

    shape: TableShape
    """This side's table."""
    columns: tuple[Compared, ...]
    """A type differs from the column's own where the other side's is wider."""
    key: tuple[str, ...]
    method: Method
    bounds: tuple[str, ...] = ()
    """Where blocks of the key's first column end, ascending."""
    classes: int = 1
    """Where there are no bounds: a power of two."""

    @property
    def source(self) -> str:
        return f"{catalog.only(self.shape)} t"

    def values(self) -> list[str]:
        """An expression for each compared column."""
        return [
            f"t.{quoted(each.name)}"
            if self.shape.column(each.name).type == each.type
            else f"t.{quoted(each.name)}::{each.type}"
            for each in self.columns
        ]

    def texts(self, names: Sequence[str]) -> list[str]:
        """The canonical texts of compared columns."""
        of = {each.name: (each.type, value) for value, each in zip(self.values(), self.columns, strict=True)}
        return [value_text(*of[name]) for name in names]

    def key_types(self) -> dict[str, str]:
        """Of the key's columns the types whose values their texts are."""
        return {each.name: each.type for each in self.columns if each.name in self.key}

    def as_compared(self, name: str, expression: str) -> str:
        """The text in which a column is compared, of a text that a change brings."""
        wanted = self.columns[self._place(name)].type
        return value_text(wanted, f"({expression}::{self.shape.column(name).type})::{wanted}")

    def row(self) -> str:
        if self.method is not Method.HASH:
            return hashed(self.method, self._text(), 0)
        record = f"ROW({', '.join(self._exact())})"
        # The hash of a record is a sum over its columns, and a sum of such sums would not tell which row a value
        # belongs to. So the key is the seed of each; a row without one is hashed once more.
        if self.key:
            return f"hash_record_extended({record}, {self._seed()})"
        return f"hash_record_extended(ROW(int8send(hash_record_extended({record}, 0))), 0)"

    def _seed(self) -> str:
        """64 bits that name the row."""
        if self._number():
            return f"{self.values()[self._place(self.key[0])]}::bigint"
        exact = self._exact()
        return f"hash_record_extended(ROW({', '.join(exact[self._place(name)] for name in self.key)}), 0)"

    def _number(self) -> bool:
        """Whether the key is one whole number."""
        return len(self.key) == 1 and self.columns[self._place(self.key[0])].type in WHOLE

    def _place(self, name: str) -> int:
        return next(place for place, each in enumerate(self.columns) if each.name == name)

    def _exact(self) -> list[str]:
        """Of each column what tells its values apart, hashed: two that differ have the same hash once in 2^64.

        PostgreSQL's hash of a bigint, and of times with it, folds 64 bits to 32; that of a numeric knows no sign. Hence
        their binary forms. Of other types the texts.
        """
        found = []
        for place, (value, each) in enumerate(zip(self.values(), self.columns, strict=True)):
            wanted = each.type
            # A numeric whose column has a scale is 1.00 everywhere, never 1.0.
            scaled = wanted.startswith("numeric(") and not wanted.endswith("]")
            if wanted in NARROW or (self._number() and place == self._place(self.key[0])):
                found.append(value)
            elif wanted in SENT or scaled:
                found.append(f"{SENT.get(wanted, 'numeric_send')}({value})")
            else:
                found.append(f'({value_text(wanted, value)}) COLLATE "C"')
        return found

    def _text(self) -> str:
        """The text of a row: no two rows that differ have the same. Twice as fast as that of a record.

        NULL shows nothing, which no value of a `_PLAIN` type does, and texts have their length before them.
        """
        parts, others = [], []
        for value, each in zip(self.values(), self.columns, strict=True):
            wanted = each.type
            name = wanted.split("(")[0] if not wanted.endswith("]") else wanted
            if name in _PLAIN:
                parts += [value, "','"]
            elif name in _TEXTS:
                # In UTF-8, because the same text has other lengths in other encodings.
                parts += [f"octet_length(convert_to({value}, 'UTF8'))", "':'", value]
            else:
                # Of a character(n) the text has no blanks at its end: how many there are depends on the encoding.
                others.append(value_text(wanted, value) if name == "character" else value)
        if others or not parts:
            parts.append(f"ROW({', '.join(others)})::text")
        # A function takes 100 arguments.
        pieces = [f"concat({', '.join(parts[start : start + 90])})" for start in range(0, len(parts), 90)]
        return " || ".join(pieces)

    def block(self) -> str:
        """The number of a row's block."""
        if self.bounds:
            first = self.shape.column(self.key[0])
            name = f"t.{quoted(first.name)}"
            even = _even(self.bounds) if first.type in WHOLE else None
            if even is not None:
                # Three numbers instead of thousands travel to both sides.
                begin, step, end = even
                inside = f"({name}::bigint - {_number(begin)}) / {step} + 1"
                return (
                    f"CASE WHEN {name} < {_number(begin)} THEN 0 WHEN {name} >= {_number(end)} "
                    f"THEN {len(self.bounds)} ELSE {inside} END"
                )
            ends = literal("{" + ",".join(self.bounds) + "}")
            return f"width_bucket({name}, {ends}::{first.type}[])"
        if self.classes == 1:
            return "0"
        if not self.key:
            return f"({self.row()} & {self.classes - 1})"
        key = f"ROW({', '.join(self.texts(self.key))})::text"
        return f"({hashed(self.method, key, 1)} & {self.classes - 1})"

    def blocks(self, part: tuple[int, int | None] | None) -> str:
        """One binary value: of each block what `unpacked` reads; of the pages from … up to but without …, or of all."""
        grouped = (
            f"SELECT b, count(*) AS n, sum(h) AS total FROM (SELECT {self.block()} AS b, {self.row()} AS h "
            f"FROM {self.source} WHERE {_pages(part)}) AS s GROUP BY b"
        )
        few = f"int2send((n - {_HALF})::smallint)"
        many = f"int2send({_HALF - 1}::smallint) || int8send(n)"
        # Of the sum 64 bits: a negative remainder and the positive one differ by 2^64.
        rest = f"mod(total, {2**64})"
        total = f"{rest} - CASE WHEN {rest} >= {2**63} THEN {2**64} WHEN {rest} < -{2**63} THEN -{2**64} ELSE 0 END"
        count = f"CASE WHEN n < {2 * _HALF - 1} THEN {few} ELSE {many} END"
        block = f"int2send(b::smallint) || {count} || int8send(({total})::bigint)"
        return f"SELECT string_agg({block}, '') FROM ({grouped}) AS g"

    def within(self, blocks: Collection[int]) -> str:
        """The condition that a row is in one of `blocks`."""
        numbers = sorted(blocks)
        if not self.bounds:
            return f"{self.block()} = ANY ({literal('{' + ','.join(map(str, numbers)) + '}')}::bigint[])"
        wanted = self.shape.column(self.key[0])
        name, conditions = f"t.{quoted(wanted.name)}", []
        for first, last in _stretches(numbers):
            ends = []
            if first > 0:
                ends.append(f"{name} >= {typed(wanted, literal(self.bounds[first - 1]))}")
            if last < len(self.bounds):
                ends.append(f"{name} < {typed(wanted, literal(self.bounds[last]))}")
            conditions.append(f"({' AND '.join(ends) or 'true'})")
        return " OR ".join(conditions) or "false"

    def rows(self, blocks: Collection[int]) -> str:
        """Of each row in `blocks`: its digest, the texts of its key."""
        return f"SELECT {', '.join([self.row(), *self.texts(self.key)])} FROM {self.source} WHERE {self.within(blocks)}"

    def counts(self, blocks: Collection[int]) -> str:
        """Of a table without a key, of each distinct row in `blocks`: copies, the texts of its columns."""
        # To a collation of the column's own, texts that differ may be equal.
        texts = [f'({text}) COLLATE "C"' for text in self.texts([each.name for each in self.columns])]
        places = ", ".join(str(place) for place in range(2, len(texts) + 2))
        return f"SELECT count(*), {', '.join(texts)} FROM {self.source} WHERE {self.within(blocks)} GROUP BY {places}"


def unpacked(packed: bytes) -> list[tuple[int, int, str]]:
    """Block, rows, and their digests' sum modulo 2^64, of what `Digest.blocks` gives.

    A block has twelve bytes: its number in two, its rows in two (in eight more where these do not hold them), the sum
    in eight.
    """
    found = []
    at = 0
    while at < len(packed):
        block, rows = _BLOCK.unpack_from(packed, at)
        at += _BLOCK.size
        rows += _HALF
        if rows == 2 * _HALF - 1:
            (rows,) = _NUMBER.unpack_from(packed, at)
            at += _NUMBER.size
        (total,) = _NUMBER.unpack_from(packed, at)
        at += _NUMBER.size
        found.append((block, rows, str(total)))
    return found


def found_rows(
    connection: Session, digest: Digest, keys: Sequence[Texts]
) -> list[tuple[Texts, dict[str, str | None] | None]]:
    """For each of `keys` the row that the table has under it, or None. Raises psycopg's errors."""
    if not keys:
        return []
    shape, order = digest.shape, key_order(connection, digest.shape)
    chosen = [shape.column(name) for name in digest.key]
    equal = {column.name: operator for column, operator in zip(shape.key, order.equal, strict=True)}
    names = [f"k{number}" for number in range(1, len(chosen) + 1)]
    # Keys are texts of the compared type: that of a number(12,2) is none of an integer.
    types = digest.key_types()
    given = [replace(column, type=types[column.name]) for column in chosen]
    # Not by unnest: it would take composites apart.
    wanted = ", ".join(
        f"(%({name})s::{array_type(column)})[n] AS {name}" for name, column in zip(names, given, strict=True)
    )
    casts = [
        f"w.{name}" if own == there else f"w.{name}::{there.type}"
        for name, own, there in zip(names, chosen, given, strict=True)
    ]
    match = " AND ".join(
        f"t.{quoted(column.name)} OPERATOR({equal.get(column.name, 'pg_catalog.=')}) {typed(column, cast)}"
        for column, cast in zip(chosen, casts, strict=True)
    ).replace("%", "%%")
    columns = [each.name for each in digest.columns]
    texts = ", ".join(text.replace("%", "%%") for text in digest.texts(columns))
    source = digest.source.replace("%", "%%")
    statement = (
        f"SELECT w.n, {texts} FROM (SELECT n, {wanted} FROM generate_series(1, {len(keys)}) AS n) AS w "
        f"JOIN {source} ON {match}"
    )
    values = {name: array_literal([key[place] for key in keys]) for place, name in enumerate(names)}
    found: dict[int, dict[str, str | None]] = {}
    for number, *row in connection.execute(statement.encode(), values).fetchall():
        found[number - 1] = dict(zip(columns, row, strict=True))
    return [(key, found.get(place)) for place, key in enumerate(keys)]


def hashed(method: Method, text: str, seed: int) -> str:
    """64 bits of a text, as a bigint."""
    if method is Method.HASH:
        return f'hashtextextended(({text}) COLLATE "C", {seed})'
    return f"('x' || substr(md5(convert_to({text}, 'UTF8')), {1 + 16 * seed}, 16))::bit(64)::bigint"


def _number(value: int) -> str:
    """A bigint; a minus before a plain literal would be an operator of its own."""
    return f"('{value}'::bigint)"


def encoding(connection: Session) -> str:
    """What the database keeps texts in, such as UTF8."""
    return str(native(connection).info.parameter_status("server_encoding"))


def probe(connection: Session, method: Method) -> list[int] | None:
    """What this server makes of values that are the same everywhere; None where it lacks the method."""
    if method is Method.HASH and native(connection).info.server_version < 140000:
        return None
    probes = [hashed(method, f"{literal(text)}::text", seed) for text in PROBES for seed in (0, 1)]
    if method is Method.HASH:
        probes += [f"hash_record_extended(ROW({RECORD}), {seed})" for seed in (0, -7_000_000_000)]
    select = ", ".join(probes)
    row = connection.execute(f"SELECT {select}".encode()).fetchone()
    assert row is not None
    return list(row)


def bounds(connection: Session, shape: TableShape, rows: int) -> list[str]:
    """Where blocks of about `ROWS_A_BLOCK` rows may end, from a sample of the pages. Empty where one block will do.

    Of whole numbers that lie evenly, ends at even distances: they need not travel. `rows`: about how many there are.
    """
    wanted = min(rows // ROWS_A_BLOCK, MOST_BLOCKS)
    if wanted < 2:
        return []
    name = quoted(shape.key[0].name)
    percent = min(100.0, 100.0 * wanted * SAMPLED_KEYS / rows)
    sample = f"SELECT {name} AS k FROM {catalog.only(shape)} TABLESAMPLE SYSTEM ({percent:.4f})"
    if shape.key[0].type in WHOLE and wanted >= _BLOCKS_A_STRETCH * 8:
        # Of bigints all over their range the distance is no bigint: then all of them are in one block.
        found = connection.execute(
            f"WITH s AS MATERIALIZED ({sample}), "
            f"e AS (SELECT min(k)::bigint AS a, max(k) AS z, "
            f"ceil((max(k)::numeric - min(k) + 1) / {wanted}) AS step FROM s), "
            f"b AS (SELECT CASE WHEN step < {2**63 // wanted} THEN (k - a) / step::bigint END AS b, count(*) AS n "
            f"FROM s, e GROUP BY 1), "
            f"t AS (SELECT sum(n) AS n FROM b GROUP BY b / {_BLOCKS_A_STRETCH}) "
            f"SELECT a, z, step, (SELECT sum(n) FROM b), (SELECT max(n) FROM b), (SELECT max(n) FROM t) FROM e".encode()
        ).fetchone()
        even = _even_bounds(*map(int, found), wanted=wanted) if found is not None and found[0] is not None else []
        if even:
            return even
    quantiles = f"SELECT s.k, ntile({wanted}) OVER (ORDER BY s.k) AS n FROM ({sample}) AS s"
    row = connection.execute(
        # Not by min(k): that of a uuid came with PostgreSQL 18.
        f"SELECT array_agg(b.k::text ORDER BY b.k) FROM (SELECT DISTINCT ON (q.n) q.k FROM ({quantiles}) AS q "
        f"WHERE q.n > 1 ORDER BY q.n, q.k) AS b".encode()
    ).fetchone()
    assert row is not None
    return list(dict.fromkeys(row[0] or ()))


def _even_bounds(first: int, last: int, step: int, keys: int, block: int, stretch: int, *, wanted: int) -> list[str]:
    """Ends between two keys at distances of `step`, where they part rows about as others would; else none.

    Of a sample of `keys`, so many are in the fullest block, and in the fullest stretch of `_BLOCKS_A_STRETCH`.
    """
    if block * wanted > keys * _UNEVEN_BLOCK or stretch * wanted > keys * _BLOCKS_A_STRETCH * _UNEVEN_STRETCH:
        return []
    return [str(end) for end in range(first + step, last + 1, step)]


def _even(bounds: Sequence[str]) -> tuple[int, int, int] | None:
    """First, distance and last of bounds that have one distance, and no more between them than a bigint holds."""
    begin, end = int(bounds[0]), int(bounds[-1])
    step = (end - begin) // max(1, len(bounds) - 1)
    even = step > 0 and end - begin < 2**63 and all(int(text) == begin + n * step for n, text in enumerate(bounds))
    return (begin, step, end) if even else None


def drawn(connection: Session, digest: Digest, rows: int, wanted: int) -> list[Key]:
    """The keys of about `wanted` rows, each of the table's (about) `rows` drawn with the same chance."""
    percent = min(100.0, 100.0 * wanted / max(1, rows))
    texts = ", ".join(digest.texts(digest.key))
    source = f"{digest.source} TABLESAMPLE BERNOULLI ({percent:.8f})"
    # The first of them would be no fair draw where the table is larger than it is believed to be.
    order = f"ORDER BY pg_catalog.random() LIMIT {2 * wanted + 100}"
    return connection.execute(f"SELECT {texts} FROM {source} {order}".encode()).fetchall()


def pages(connection: Session, shape: TableShape) -> list[tuple[int, int | None] | None]:
    """The parts in which a table is read, by its pages. A partitioned table is one part."""
    if shape.partitioned:
        return [None]
    row = connection.execute(
        "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::bigint",
        [quoted(shape.table.schema, shape.table.name)],
    ).fetchone()
    assert row is not None
    starts = list(range(0, max(1, row[0]), PAGES_A_PART))
    return [(start, start + PAGES_A_PART if start != starts[-1] else None) for start in starts]


def _pages(part: tuple[int, int | None] | None) -> str:
    if part is None:
        return "true"
    start, end = part
    return f"t.ctid >= '({start},0)'" + ("" if end is None else f" AND t.ctid < '({end},0)'")


def _stretches(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as stretches (first, last) without a gap."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
