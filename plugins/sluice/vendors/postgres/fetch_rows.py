"""Reads rows from a PostgreSQL database: by their keys, for repairs; with values that another vendor cannot hold."""

from collections.abc import Mapping, Sequence

import psycopg

from sluice.database import digests
from sluice.database.digests import ComparedTable, Method, Texts
from sluice.database.rows import table_changed
from sluice.database.session import Session
from sluice.model.logical_type import ColumnType, Special
from sluice.model.shape import Column, TableShape
from sluice.vendors.postgres import catalog, digest
from sluice.vendors.postgres.arrays import array_literal
from sluice.vendors.postgres.canonical import CanonicalDigest
from sluice.vendors.postgres.connection import native, quoted
from sluice.vendors.postgres.digest import Digest
from sluice.vendors.postgres.key_order import value_text
from sluice.vendors.postgres.source import owner_code, snapshot


def rows(connection: Session, of: ComparedTable, keys: Sequence[Texts], *, alike: bool = False) -> list[Texts | None]:
    """For each of `keys`, the row with exactly these key texts; None without one.

    Values may be equal although their texts are not (1.0 and 1.00); with `alike` such a row is returned too. Raises
    psycopg's errors, `table-changed`.
    """
    key_texts = [tuple(text or "" for text in texts) for texts in keys]
    rows_found = digest.rows_of_keys(connection, _digest(connection, of), key_texts)
    return digests.rows_under(rows_found, of, alike=alike)


def copies(connection: Session, of: ComparedTable, rows: Sequence[Texts]) -> list[int]:
    """How many copies of each of these rows a keyless table has. Raises psycopg's errors, `table-changed`."""
    about, columns = _digest(connection, of), of.columns
    row_text = f"ROW({', '.join(about.texts([each.name for each in columns]))})::text".replace("%", "%%")
    names = [f"c{number}" for number in range(1, len(columns) + 1)]
    arrays = ", ".join(f"%({name})s::text[]" for name in names)
    source = about.source.replace("%", "%%")
    statement = (
        f"SELECT w.n, count(*) FROM unnest({arrays}) WITH ORDINALITY AS w ({', '.join(names)}, n) "
        f'JOIN {source} ON (ROW({", ".join(f"w.{name}" for name in names)})::text) COLLATE "C" = ({row_text}) '
        'COLLATE "C" GROUP BY w.n'
    )
    values = {name: array_literal([row[index] for row in rows]) for index, name in enumerate(names)}
    counts = dict(connection.execute(statement.encode(), values).fetchall())
    return [counts.get(index, 0) for index in range(1, len(rows) + 1)]


def _digest(connection: Session, of: ComparedTable) -> Digest:
    table = of.table
    server = f"{native(connection).info.host}/{native(connection).info.dbname}"
    shape = catalog.shape(connection, table)
    if shape is None:
        raise table_changed(server, table, "is gone")
    try:
        snapshot.lock(connection, shape)
        if not snapshot.whole(connection, table):
            raise table_changed(server, table, "was emptied, rewritten or replaced")
        for each in of.columns:
            shape.column(each.name)
    except (psycopg.errors.UndefinedTable, KeyError) as error:
        raise table_changed(server, table) from error
    if of.key and {column.name for column in shape.key} != set(of.key):
        raise table_changed(server, table, "has another key now")
    digest_class, method = (CanonicalDigest, Method.CANONICAL) if of.canonical else (Digest, Method.HASH)
    return digest_class(shape, of.columns, of.key, method)


# Literals without a type are of the column's: dates, times and numbers write infinity alike.
_CONDITIONS = {
    Special.NAN: "{0} = 'NaN'",
    Special.INFINITY: "{0} IN ('infinity', '-infinity')",
    Special.BEFORE_YEAR_1: "({0} < '0001-01-01' AND {0} <> '-infinity')",
    Special.AFTER_YEAR_9999: "({0} >= '10000-01-01' AND {0} <> 'infinity')",
    Special.TOO_LONG: "{1} > {2}",
    Special.EMPTY: "{1} = 0",
}
"""{0}: the column; {1}: its length; {2}: the longest that fits. No text has 0x00 here."""


def example(
    connection: Session, table: TableShape, column_types: Mapping[str, ColumnType]
) -> tuple[str, Special, dict[str, str | None]] | None:
    """As of `RowSource.special`."""
    checks = [
        (name, special, _condition(table.column(name), special, column_type))
        for name, column_type in column_types.items()
        for special in sorted(column_type.excluded)
        if special in _CONDITIONS
    ]
    if not checks:
        return None
    either = " OR ".join(condition for _, _, condition in checks)
    which = ", ".join(f"coalesce({condition}, false)" for _, _, condition in checks)
    keys = "".join(f", {value_text(column.type, f't.{quoted(column.name)}')}" for column in table.key)
    with owner_code.reading(connection, table):
        row = connection.execute(
            f"SELECT {which}{keys} FROM {catalog.only(table)} t WHERE {either} LIMIT 1".encode()
        ).fetchone()
    if row is None:
        return None
    first = next(index for index, holds in enumerate(row) if holds)
    names = [column.name for column in table.key]
    return (*checks[first][:2], dict(zip(names, row[len(checks) :], strict=True)))


def _condition(column: Column, special: Special, column_type: ColumnType) -> str:
    name = f"t.{quoted(column.name)}"
    length = f"octet_length({name})" if column.type == "bytea" else f"length({value_text(column.type, name)})"
    return _CONDITIONS[special].format(name, length, column_type.length)
