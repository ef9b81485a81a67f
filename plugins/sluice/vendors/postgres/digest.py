"""Statements that compute digests of a PostgreSQL table's rows, the same on master and slave.

A row's digest is a 64-bit hash of its replicated columns, by value or canonical text. A block's digest is the number of
its rows and the sum of their digests: their order does not matter, and equal rows count separately. A block is a range
of the key's first column where every database orders its type alike (`RANGED`); otherwise a class of the key's hash, or
of the whole row's for a keyless table. Two different blocks have the same digest once in 2^64.
"""

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.database.digests import MOST_BLOCKS, ROWS_A_BLOCK, Compared, Method, Texts
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.shape import Column, TableShape
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
"""Types whose own hash differs for different values: of 32 bits or fewer, or hashed byte by byte."""
SENT = {
    "bigint": "int8send",
    "timestamp without time zone": "timestamp_send",
    "timestamp with time zone": "timestamptz_send",
}
"""Types whose binary form is hashed, with the function that makes it; for a numeric with a scale: `numeric_send`."""
SAMPLED_KEYS = 100
"""How many keys of a block are sampled, on average, to find the bounds of blocks."""
PAGES_A_PART = 65_536
"""Pages that one statement reads, half a gigabyte."""
_BLOCKS_A_STRETCH, _UNEVEN_STRETCH, _UNEVEN_BLOCK = 30, 2.5, 20
"""Keys are even when no stretch of so many blocks has more than so many times its share of a sample, and no block more
than so many times its share: a sample consists of whole pages, several of some blocks and none of others."""
_HALF = 2**15
_SHORT, _RUN, _NUMBER = struct.Struct(">h"), struct.Struct(">hh"), struct.Struct(">q")


RECORD = (  # a value of each type that is not hashed as a text
    "1::smallint, -2::int, 3::bigint, date '2020-02-29', true, uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', NULL::int, "
    "int8send(-3), numeric_send(-12.50::numeric(9,2)), timestamp_send(timestamp '2020-02-29 12:00:00.000001'), "
    "timestamptz_send(timestamptz '2020-02-29 12:00+00'), 'x'::text COLLATE \"C\""
)
PROBES = ("", "0", "Sluice", "x" * 200)
"""Texts with letters that every encoding has, as others would fail in some databases."""


@dataclass(frozen=True)
class Digest:
    """Makes the statements for one side's table."""

    shape: TableShape
    """This side's table."""
    columns: tuple[Compared, ...]
    """The compared columns; a type differs from the column's own where the other side's is wider."""
    key: tuple[str, ...]
    method: Method
    bounds: tuple[str, ...] = ()
    """The bounds of blocks in the key's first column, ascending."""
    classes: int = 1
    """Without bounds: the number of hash classes, a power of two."""

    @property
    def source(self) -> str:
        return f"{catalog.only(self.shape)} t"

    def values(self) -> list[str]:
        """An expression for each compared column."""
        return [self._value(self.shape.column(each.name), each.type) for each in self.columns]

    @staticmethod
    def _value(column: Column, compared: str) -> str:
        name = f"t.{quoted(column.name)}"
        if column.type == compared:
            return name
        # Not by a cast of a type of the database's own: its owner could have made it.
        return f"{value_text(column.type, name) if '.' in column.type else name}::{compared}"

    def texts(self, names: Sequence[str]) -> list[str]:
        """The canonical texts of compared columns."""
        of = {each.name: (each.type, value) for value, each in zip(self.values(), self.columns, strict=True)}
        return [value_text(*of[name]) for name in names]

    def key_types(self) -> dict[str, str]:
        """Key column → the type in which its texts are written."""
        return {each.name: each.type for each in self.columns if each.name in self.key}

    def as_compared(self, name: str, expression: str) -> str:
        """Converts a text of a change to the text in which the column is compared."""
        type_, own = self.columns[self._index(name)].type, self.shape.column(name).type
        # Not as a value of a type of the database's own: its owner could have made checks and casts of it.
        value = f"({expression})" if "." in own else f"({expression}::{own})"
        return value_text(type_, f"{value}::{type_}")

    def row(self) -> str:
        if self.method is not Method.HASH:
            return hashed(self.method, self._text(), 0)
        record = f"ROW({', '.join(self._exact())})"
        # The hash of a record is a sum over its columns, and in a sum of such sums values of different rows could be
        # exchanged. So the key is the seed of each row's hash; a keyless row is hashed once more.
        if self.key:
            return f"hash_record_extended({record}, {self._seed()})"
        return f"hash_record_extended(ROW(int8send(hash_record_extended({record}, 0))), 0)"

    def _seed(self) -> str:
        """64 bits computed from the key."""
        if self._number():
            return f"{self.values()[self._index(self.key[0])]}::bigint"
        exact = self._exact()
        return f"hash_record_extended(ROW({', '.join(exact[self._index(name)] for name in self.key)}), 0)"

    def _number(self) -> bool:
        """Whether the key is one whole number."""
        return len(self.key) == 1 and self.columns[self._index(self.key[0])].type in WHOLE

    def _index(self, name: str) -> int:
        return next(index for index, each in enumerate(self.columns) if each.name == name)

    def _exact(self) -> list[str]:
        """For each column an expression whose hash differs for different values, except once in 2^64.

        PostgreSQL's hash of a bigint, and so of times, folds 64 bits to 32; that of a numeric ignores the sign. So
        their binary forms are hashed, and the texts of other types.
        """
        names = []
        for index, (value, each) in enumerate(zip(self.values(), self.columns, strict=True)):
            type_ = each.type
            # A numeric whose column has a scale is 1.00 everywhere, never 1.0.
            scaled = type_.startswith("numeric(") and not type_.endswith("]")
            if type_ in NARROW or (self._number() and index == self._index(self.key[0])):
                names.append(value)
            elif type_ in SENT or scaled:
                names.append(f"{SENT.get(type_, 'numeric_send')}({value})")
            else:
                names.append(f'({value_text(type_, value)}) COLLATE "C"')
        return names

    def _text(self) -> str:
        """The text of a row, different for different rows, and twice as fast as the text of a record.

        NULL becomes an empty text, which no value of a `_PLAIN` type has; other texts follow their length.
        """
        parts, others = [], []
        for value, each in zip(self.values(), self.columns, strict=True):
            type_ = each.type
            name = type_.split("(")[0] if not type_.endswith("]") else type_
            if name in _PLAIN:
                parts += [value, "','"]
            elif name in _TEXTS:
                # In UTF-8, because the length of a text depends on the encoding.
                parts += [f"octet_length(convert_to({value}, 'UTF8'))", "':'", value]
            else:
                # A character(n) without its trailing blanks, whose number depends on the encoding.
                others.append(value_text(type_, value) if name == "character" else value)
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
                # Three numbers instead of thousands are sent to both sides.
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
        """Three binary values with all blocks, for `unpacked`. `part`: first page and the one after the last."""
        grouped = (
            f"SELECT b, count(*) AS n, sum(h) AS total FROM (SELECT {self.block()} AS b, {self.row()} AS h "
            f"FROM {self.source} WHERE {_pages(part)}) AS s GROUP BY b"
        )
        placed = (
            f"SELECT b, n, total, row_number() OVER (ORDER BY b) AS p, row_number() OVER (PARTITION BY n ORDER BY b) "
            f"AS q FROM ({grouped}) AS s"
        )
        length = f"int2send((count(*) - {_HALF})::smallint) AS length"
        few = f"int2send((n - {_HALF})::smallint)"
        many = f"int2send({_HALF - 1}::smallint) || int8send(n)"
        count = f"CASE WHEN n < {2 * _HALF - 1} THEN {few} ELSE {many} END"
        # The sum modulo 2^64, as a signed number.
        rest = f"mod(total, {2**64})"
        total = f"{rest} - CASE WHEN {rest} >= {2**63} THEN {2**64} WHEN {rest} < -{2**63} THEN -{2**64} ELSE 0 END"
        return (
            f"WITH g AS MATERIALIZED ({placed}) SELECT "
            f"(SELECT string_agg(int2send(f::smallint) || length, '' ORDER BY f) "
            f"FROM (SELECT min(b) AS f, {length} FROM g GROUP BY b - p) AS r), "
            f"(SELECT string_agg({count} || length, '' ORDER BY f) "
            f"FROM (SELECT n, min(b) AS f, {length} FROM g GROUP BY n, p - q) AS r), "
            f"(SELECT string_agg(int8send(({total})::bigint), '' ORDER BY b) FROM g)"
        )

    def within(self, blocks: Collection[int]) -> str:
        """The condition that a row is in one of `blocks`."""
        numbers = sorted(blocks)
        if not self.bounds:
            return f"{self.block()} = ANY ({literal('{' + ','.join(map(str, numbers)) + '}')}::bigint[])"
        column = self.shape.column(self.key[0])
        name, conditions = f"t.{quoted(column.name)}", []
        for first, last in _stretches(numbers):
            ends = []
            if first > 0:
                ends.append(f"{name} >= {typed(column, literal(self.bounds[first - 1]))}")
            if last < len(self.bounds):
                ends.append(f"{name} < {typed(column, literal(self.bounds[last]))}")
            conditions.append(f"({' AND '.join(ends) or 'true'})")
        return " OR ".join(conditions) or "false"

    def rows(self, blocks: Collection[int]) -> str:
        """The query for digests and key texts of the rows in `blocks`."""
        return f"SELECT {', '.join([self.row(), *self.texts(self.key)])} FROM {self.source} WHERE {self.within(blocks)}"

    def counts(self, blocks: Collection[int]) -> str:
        """For a keyless table: the query for the distinct rows in `blocks`, as numbers of copies and texts."""
        # COLLATE "C", because a column's own collation may have equal texts that differ.
        texts = [f'({text}) COLLATE "C"' for text in self.texts([each.name for each in self.columns])]
        numbers = ", ".join(str(index) for index in range(2, len(texts) + 2))
        return f"SELECT count(*), {', '.join(texts)} FROM {self.source} WHERE {self.within(blocks)} GROUP BY {numbers}"


def unpacked(numbers: bytes, counts: bytes, sums: bytes) -> list[tuple[int, int, str]]:
    """Blocks, as number, rows and sum of digests modulo 2^64, from the result of `Digest.blocks`.

    A block has eight bytes, those of its sum. Numbers are runs of consecutive ones, counts runs of equal ones: four
    bytes a run, and eight more where a count is large.
    """
    blocks = [number for first, length in _RUN.iter_unpack(numbers) for number in range(first, first + length + _HALF)]
    all_rows: list[int] = []
    at = 0
    while at < len(counts):
        (rows,) = _SHORT.unpack_from(counts, at)
        at += _SHORT.size
        rows += _HALF
        if rows == 2 * _HALF - 1:
            (rows,) = _NUMBER.unpack_from(counts, at)
            at += _NUMBER.size
        (length,) = _SHORT.unpack_from(counts, at)
        at += _SHORT.size
        all_rows += [rows] * (length + _HALF)
    totals = (str(total) for (total,) in _NUMBER.iter_unpack(sums))
    return list(zip(blocks, all_rows, totals, strict=True))


def rows_of_keys(
    connection: Session, digest: Digest, keys: Sequence[Texts]
) -> list[tuple[Texts, dict[str, str | None] | None]]:
    """For each of `keys` the key and its row, or None. Raises psycopg's errors."""
    columns = [each.name for each in digest.columns]
    found = _of_keys(connection, digest, keys, digest.texts(columns))
    return [
        (key, dict(zip(columns, found[index], strict=True)) if index in found else None)
        for index, key in enumerate(keys)
    ]


def digests_of_keys(connection: Session, digest: Digest, keys: Sequence[Texts]) -> list[int | None]:
    """For each of `keys` the digest of its row, or None. Raises psycopg's errors."""
    found = _of_keys(connection, digest, keys, [digest.row()])
    return [found[index][0] if index in found else None for index in range(len(keys))]


def _of_keys(
    connection: Session, digest: Digest, keys: Sequence[Texts], expressions: Sequence[str]
) -> dict[int, tuple[Any, ...]]:
    """The place of each of `keys` that has a row → the values of `expressions` for it."""
    if not keys:
        return {}
    shape, order = digest.shape, key_order(connection, digest.shape)
    chosen = [shape.column(name) for name in digest.key]
    equal = {column.name: operator for column, operator in zip(shape.key, order.equal, strict=True)}
    names = [f"k{number}" for number in range(1, len(chosen) + 1)]
    # Keys are texts of the compared types, which the column's own type may not accept.
    types = digest.key_types()
    given = [replace(column, type=types[column.name]) for column in chosen]
    # Not by unnest: it would take composites apart.
    key_columns = ", ".join(
        f"(%({name})s::{array_type(column)})[n] AS {name}" for name, column in zip(names, given, strict=True)
    )
    casts = [
        f"w.{name}" if column == other else f"w.{name}::{other.type}"
        for name, column, other in zip(names, chosen, given, strict=True)
    ]
    match = " AND ".join(
        f"t.{quoted(column.name)} OPERATOR({equal.get(column.name, 'pg_catalog.=')}) {typed(column, cast)}"
        for column, cast in zip(chosen, casts, strict=True)
    ).replace("%", "%%")
    selected = ", ".join(expression.replace("%", "%%") for expression in expressions)
    source = digest.source.replace("%", "%%")
    statement = (
        f"SELECT w.n, {selected} FROM (SELECT n, {key_columns} FROM generate_series(1, {len(keys)}) AS n) AS w "
        f"JOIN {source} ON {match}"
    )
    values = {name: array_literal([key[index] for key in keys]) for index, name in enumerate(names)}
    rows = connection.execute(statement.encode(), values).fetchall()
    return {number - 1: tuple(row) for number, *row in rows}


def hashed(method: Method, text: str, seed: int) -> str:
    """64 bits of a text, as a bigint."""
    if method is Method.HASH:
        return f'hashtextextended(({text}) COLLATE "C", {seed})'
    return f"('x' || substr(md5(convert_to({text}, 'UTF8')), {1 + 16 * seed}, 16))::bit(64)::bigint"


def _number(value: int) -> str:
    """A bigint; a minus before a plain literal would be a separate operator."""
    return f"('{value}'::bigint)"


def encoding(connection: Session) -> str:
    """The database's encoding of texts, such as UTF8."""
    return str(native(connection).info.parameter_status("server_encoding"))


def probe(connection: Session, method: Method) -> list[int] | None:
    """This server's digests of fixed values; None if it lacks the method."""
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
    """Bounds for blocks of about `ROWS_A_BLOCK` rows, from a sample of pages; empty if one block is enough.

    Where whole numbers are distributed evenly, the bounds have equal distances, so that three numbers name them all.
    `rows`: about how many rows there are.
    """
    blocks = min(rows // ROWS_A_BLOCK, MOST_BLOCKS)
    if blocks < 2:
        return []
    name = quoted(shape.key[0].name)
    percent = min(100.0, 100.0 * blocks * SAMPLED_KEYS / rows)
    sample = f"SELECT {name} AS k FROM {catalog.only(shape)} TABLESAMPLE SYSTEM ({percent:.4f})"
    if shape.key[0].type in WHOLE and blocks >= _BLOCKS_A_STRETCH * 8:
        # Where bigints use all of their range, the distance is no bigint, and all of them are in one block.
        result = connection.execute(
            f"WITH s AS MATERIALIZED ({sample}), "
            f"e AS (SELECT min(k)::bigint AS a, max(k) AS z, "
            f"ceil((max(k)::numeric - min(k) + 1) / {blocks}) AS step FROM s), "
            f"b AS (SELECT CASE WHEN step < {2**63 // blocks} THEN (k - a) / step::bigint END AS b, count(*) AS n "
            f"FROM s, e GROUP BY 1), "
            f"t AS (SELECT sum(n) AS n FROM b GROUP BY b / {_BLOCKS_A_STRETCH}) "
            f"SELECT a, z, step, (SELECT sum(n) FROM b), (SELECT max(n) FROM b), (SELECT max(n) FROM t) FROM e".encode()
        ).fetchone()
        even = _even_bounds(result, blocks) if result is not None and result[0] is not None else []
        if even:
            return even
    quantiles = f"SELECT s.k, ntile({blocks}) OVER (ORDER BY s.k) AS n FROM ({sample}) AS s"
    row = connection.execute(
        # Not min(k): PostgreSQL has that for uuid only since 18.
        f"SELECT array_agg(b.k::text ORDER BY b.k) FROM (SELECT DISTINCT ON (q.n) q.k FROM ({quantiles}) AS q "
        f"WHERE q.n > 1 ORDER BY q.n, q.k) AS b".encode()
    ).fetchone()
    assert row is not None
    return list(dict.fromkeys(row[0] or ()))


def _even_bounds(values: Sequence[Any], blocks: int) -> list[str]:
    """Bounds at equal distances, where these divide the rows evenly enough; else none.

    `values`: first key, last key, distance, number of sampled keys, and how many of them the fullest block and the
    fullest stretch of `_BLOCKS_A_STRETCH` have.
    """
    first, last, step, keys, block, stretch = map(int, values)
    if block * blocks > keys * _UNEVEN_BLOCK or stretch * blocks > keys * _BLOCKS_A_STRETCH * _UNEVEN_STRETCH:
        return []
    return [str(end) for end in range(first + step, last + 1, step)]


def _even(bounds: Sequence[str]) -> tuple[int, int, int] | None:
    """First bound, distance and last bound, where all distances are equal and fit a bigint; else None."""
    begin, end = int(bounds[0]), int(bounds[-1])
    step = (end - begin) // max(1, len(bounds) - 1)
    even = step > 0 and end - begin < 2**63 and all(int(text) == begin + n * step for n, text in enumerate(bounds))
    return (begin, step, end) if even else None


def drawn(connection: Session, digest: Digest, rows: int, count: int) -> list[Key]:
    """The keys of about `count` rows, drawn at random from the table's (about) `rows`."""
    percent = min(100.0, 100.0 * count / max(1, rows))
    texts = ", ".join(digest.texts(digest.key))
    source = f"{digest.source} TABLESAMPLE BERNOULLI ({percent:.8f})"
    # Shuffled before the limit: where the table is larger than estimated, the first rows would be no random sample.
    order = f"ORDER BY pg_catalog.random() LIMIT {2 * count + 100}"
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
    stretches: list[tuple[int, int]] = []
    for number in numbers:
        if stretches and stretches[-1][1] == number - 1:
            stretches[-1] = (stretches[-1][0], number)
        else:
            stretches.append((number, number))
    return stretches
