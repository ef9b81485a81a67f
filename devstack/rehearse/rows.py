"""Rows for the tables of a rehearsal: a sample of a master's that keeps its foreign keys, or made-up ones."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import psycopg

from sluice.vendors.postgres.connection import quoted

Connection = psycopg.Connection[Any]

_TABLES = """
SELECT c.oid::int8, n.nspname, c.relname, c.relkind = 'p'
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
   AND n.nspname !~ '^(pg_|information_schema$)'
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::regclass
                   AND d.objid = c.oid AND d.deptype = 'e')
 ORDER BY 2, 3
"""
_COLUMNS = """
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), t.typtype, t.typcategory,
       a.attidentity <> '' OR a.atthasdef, b.typname, a.atttypmod
  FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
 WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
 ORDER BY a.attnum
"""
_KEYS = """
SELECT k.conrelid::int8, k.confrelid::int8,
       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY x (n, o)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = x.n ORDER BY x.o),
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY x (n, o)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = x.n ORDER BY x.o),
       ARRAY(SELECT pg_catalog.format_type(a.atttypid, a.atttypmod) FROM unnest(k.confkey) WITH ORDINALITY x (n, o)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = x.n ORDER BY x.o)
  FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0
"""
_SEQUENCES = """
SELECT schemaname, sequencename, last_value FROM pg_catalog.pg_sequences WHERE last_value IS NOT NULL
"""
ROUNDS = 50
"""Rows that foreign keys lack may lack rows themselves, so deep at most."""


@dataclass(frozen=True)
class Column:
    """A column that a statement may give a value."""

    name: str
    type: str
    kind: str
    """As `pg_type.typtype`: b base, c composite, d domain, e enum, r range, m multirange."""
    category: str
    """As `pg_type.typcategory`."""
    default: bool
    base: str
    """The type's name; a domain's base type."""


@dataclass(frozen=True)
class Table:
    """A table that stores rows."""

    oid: int
    schema: str
    name: str
    partitioned: bool
    columns: tuple[Column, ...]

    @property
    def quoted(self) -> str:
        return quoted(self.schema, self.name)

    @property
    def listed(self) -> str:
        return ", ".join(quoted(column.name) for column in self.columns)

    @property
    def source(self) -> str:
        """For FROM: without the rows of tables that inherit from it, which have them themselves."""
        return self.quoted if self.partitioned else f"ONLY {self.quoted}"


@dataclass(frozen=True)
class ForeignKey:
    """Columns of a table that name a row of another one."""

    table: int
    parent: int
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]
    types: tuple[str, ...]
    """Of the parent's columns."""


def tables_of(connection: Connection) -> list[Table]:
    """The application's tables without partitions, which have their rows through their root."""
    found = []
    for oid, schema, name, partitioned in connection.execute(_TABLES).fetchall():
        columns = tuple(Column(*row[:6]) for row in connection.execute(_COLUMNS, [oid]).fetchall())
        found.append(Table(oid, schema, name, partitioned, columns))
    return found


def foreign_keys(connection: Connection) -> list[ForeignKey]:
    """The foreign keys of the database."""
    return [
        ForeignKey(table, parent, *map(tuple, lists)) for table, parent, *lists in connection.execute(_KEYS).fetchall()
    ]


def sample(master: Connection, copy: Connection, limit: int) -> None:
    """Copies `limit` rows of each table that the copy has, and all rows that their foreign keys name.

    `master` is read in one snapshot, and nothing is locked but by reading. Raises psycopg's errors.
    """
    with master.transaction(), copy.transaction():
        master.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # No trigger of the application fires, and no foreign key is checked until all are there.
        copy.execute("SET LOCAL session_replication_role = replica")
        there = {(table.schema, table.name): table for table in tables_of(copy)}
        tables = {table.oid: table for table in tables_of(master) if (table.schema, table.name) in there}
        for table in tables.values():
            _copy(master, copy, table, f"SELECT {table.listed} FROM {table.source} LIMIT {limit}")
        keys = [key for key in foreign_keys(master) if key.table in tables and key.parent in tables]
        for _ in range(ROUNDS):
            if not [key for key in keys if _complete(master, copy, tables, key)]:
                break
        _copy_sequences(master, copy)


def _complete(master: Connection, copy: Connection, tables: dict[int, Table], key: ForeignKey) -> bool:
    """Copies the rows that a foreign key lacks; returns whether there were any."""
    child, parent = tables[key.table], tables[key.parent]
    columns = [f"c.{quoted(name)}" for name in key.columns]
    matched = " AND ".join(
        f"p.{quoted(name)} = {column}" for name, column in zip(key.parent_columns, columns, strict=True)
    )
    lacking = copy.execute(
        f"SELECT DISTINCT {', '.join(f'{column}::text' for column in columns)} FROM {child.source} c "
        f"WHERE num_nulls({', '.join(columns)}) = 0 "
        f"AND NOT EXISTS (SELECT FROM {parent.quoted} p WHERE {matched})".encode()
    ).fetchall()
    for begin in range(0, len(lacking), 1000):
        rows = lacking[begin : begin + 1000]
        lists = [[row[number] for row in rows] for number in range(len(columns))]
        arrays = ", ".join(f"%s::text[]::{kind}[]" for kind in key.types)
        names = ", ".join(quoted(name) for name in key.parent_columns)
        query = f"SELECT {parent.listed} FROM {parent.source} WHERE ({names}) IN (SELECT * FROM unnest({arrays}))"
        _copy(master, copy, parent, query, lists)
    return bool(lacking)


def _copy(master: Connection, copy: Connection, table: Table, query: str, values: Iterable[Any] = ()) -> None:
    if not table.columns:
        return
    with (
        master.cursor().copy(f"COPY ({query}) TO STDOUT".encode(), list(values) or None) as reading,
        copy.cursor().copy(f"COPY {table.quoted} ({table.listed}) FROM STDIN".encode()) as writing,
    ):
        for part in reading:
            writing.write(part)


def _copy_sequences(master: Connection, copy: Connection) -> None:
    there = {tuple(row) for row in copy.execute("SELECT schemaname, sequencename FROM pg_sequences").fetchall()}
    for schema, name, last in master.execute(_SEQUENCES).fetchall():
        if (schema, name) in there:
            copy.execute("SELECT setval(%s::regclass, %s)", [quoted(schema, name), last])


def any_there(connection: Connection) -> bool:
    """Whether a table has rows."""
    return any(_has_rows(connection, table) for table in tables_of(connection))


def _has_rows(connection: Connection, table: Table) -> bool:
    return connection.execute(f"SELECT EXISTS (SELECT FROM {table.source})".encode()).fetchone() == (True,)


def make_up(connection: Connection, limit: int) -> tuple[list[str], dict[str, str]]:
    """Fills each empty table with `limit` made-up rows, if its checks accept them.

    Returns the tables that got some, and those that got none → why. A foreign key gets keys that its parent has, so
    parents come first.
    """
    keys: dict[int, list[ForeignKey]] = {}
    for key in foreign_keys(connection):
        keys.setdefault(key.table, []).append(key)
    filled: list[str] = []
    refused: dict[str, str] = {}
    tables = {table.oid: table for table in tables_of(connection)}
    for table in in_order(list(tables.values()), keys):
        if _has_rows(connection, table):
            continue
        values = {column.name: made_up(column) for column in table.columns if not column.default}
        for key in keys.get(table.oid, ()):
            parent = tables.get(key.parent)
            for ours, name in zip(key.columns, key.parent_columns, strict=True):
                if parent is None or parent.oid == table.oid:
                    values[ours] = "NULL"
                else:
                    values[ours] = (
                        f"(SELECT p.{quoted(name)} FROM {parent.quoted} p ORDER BY p.{quoted(name)} "
                        f"OFFSET g % greatest((SELECT count(*) FROM {parent.quoted}), 1) LIMIT 1)"
                    )
        if not values:
            continue
        names = ", ".join(map(quoted, values))
        try:
            with connection.transaction():
                connection.execute("SET LOCAL session_replication_role = replica")
                connection.execute(
                    f"INSERT INTO {table.quoted} ({names}) SELECT {', '.join(values.values())} "
                    f"FROM generate_series(1, {limit}) g ON CONFLICT DO NOTHING".encode()
                )
            filled.append(f"{table.schema}.{table.name}")
        except psycopg.Error as error:
            refused[f"{table.schema}.{table.name}"] = str(error.diag.message_primary or error)
    return filled, refused


def in_order(tables: list[Table], keys: dict[int, list[ForeignKey]]) -> list[Table]:
    """The tables with those first that others name; within circles, in any order."""
    found: dict[int, Table] = {}
    by_oid = {table.oid: table for table in tables}

    def put(table: Table, above: frozenset[int]) -> None:
        for key in keys.get(table.oid, ()):
            if key.parent in by_oid and key.parent not in above and key.parent not in found:
                put(by_oid[key.parent], above | {key.parent})
        found.setdefault(table.oid, table)

    for table in tables:
        put(table, frozenset({table.oid}))
    return list(found.values())


_VALUES: dict[str, str] = {
    "int2": "g % 32000", "int4": "g", "int8": "g", "float4": "g / 4.0", "float8": "g / 4.0", "money": "g % 1000",
    "bool": "g % 2 = 0", "date": "date '2024-01-01' + g % 3650", "uuid": "md5(g::text)::uuid",
    "timestamp": "timestamp '2024-01-01' + g % 87600 * interval '1 hour'",
    "time": "time '00:00' + g * interval '1 minute'",
    "timestamptz": "timestamptz '2024-01-01 00:00+00' + g % 87600 * interval '1 hour'",
    "timetz": "timetz '00:00+00' + g * interval '1 minute'", "interval": "g * interval '1 minute'",
    "json": "json_build_object('n', g)", "jsonb": "jsonb_build_object('n', g)", "bytea": "convert_to(g::text, 'UTF8')",
    "inet": "inet '10.0.0.0' + g", "cidr": "set_masklen((inet '10.0.0.0' + g)::cidr, 32)", "oid": "g::oid",
    "xml": "('<n>' || g || '</n>')::xml", "tsvector": "to_tsvector('simple', g::text)", "bit": "(g % 2)::bit",
    "macaddr": "('08002b' || lpad(to_hex(g), 6, '0'))::macaddr", "point": "point(g, g)", "name": "('n' || g)",
    "char": "'c'", "hstore": "('n=>' || g)::hstore",
}  # fmt: skip
"""Base type → an expression of the row's number `g`."""


def made_up(column: Column) -> str:
    """An expression of the row's number `g` for a value of the column; NULL for types without one."""
    made: Callable[[str], str] = lambda value: f"({value})::{column.type}"  # noqa: E731
    if column.kind == "e":
        return f"(enum_range(NULL::{column.type}))[1 + g % cardinality(enum_range(NULL::{column.type}))]"
    if column.category == "A":
        return made("'{}'")
    if column.kind in ("r", "m"):
        return made("'empty'" if column.kind == "r" else "'{}'")
    if column.base in ("text", "varchar", "bpchar", "citext"):
        # A cast cuts what is too long; the number comes first, so that short texts differ, too.
        return made("g || ' text'")
    if column.base == "numeric":
        return made(_fitting(column.type))
    return made(_VALUES[column.base]) if column.base in _VALUES else "NULL"


def _fitting(kind: str) -> str:
    """A number with as many digits as `numeric(p,s)` has before its point at most."""
    precision, _, scale = kind.removeprefix("numeric").strip("()").partition(",")
    if not precision.isdecimal():
        return "g"
    digits = int(precision) - int(scale or 0)
    return f"g % {10 ** min(digits, 9)}" if digits > 0 else "0"
