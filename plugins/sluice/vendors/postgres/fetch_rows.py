"""Reads rows by their keys from a PostgreSQL database, for repairs."""

from collections.abc import Sequence

import psycopg

from sluice.database import digests
from sluice.database.digests import ComparedTable, Method, Texts
from sluice.database.rows import table_changed
from sluice.database.session import Session
from sluice.vendors.postgres import catalog, digest
from sluice.vendors.postgres.arrays import array_literal
from sluice.vendors.postgres.canonical import CanonicalDigest
from sluice.vendors.postgres.connection import native
from sluice.vendors.postgres.digest import Digest
from sluice.vendors.postgres.source import snapshot


def rows(connection: Session, of: ComparedTable, keys: Sequence[Texts], *, alike: bool = False) -> list[Texts | None]:
    """For each of `keys`, the row with exactly these key texts; None without one.

    Values may be equal although their texts are not (1.0 and 1.00); with `alike` such a row is returned too. Raises
    psycopg's errors, `table-changed`.
    """
    wanted = [tuple(text or "" for text in texts) for texts in keys]
    rows_found = digest.rows_of_keys(connection, _digest(connection, of), wanted)
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
    values = {name: array_literal([row[place] for row in rows]) for place, name in enumerate(names)}
    counts = dict(connection.execute(statement.encode(), values).fetchall())
    return [counts.get(place, 0) for place in range(1, len(rows) + 1)]


def _digest(connection: Session, of: ComparedTable) -> Digest:
    table = of.table
    place = f"{native(connection).info.host}/{native(connection).info.dbname}"
    shape = catalog.shape(connection, table)
    if shape is None:
        raise table_changed(place, table, "is gone")
    try:
        snapshot.lock(connection, shape)
        if not snapshot.whole(connection, table):
            raise table_changed(place, table, "was emptied, rewritten or replaced")
        for each in of.columns:
            shape.column(each.name)
    except (psycopg.errors.UndefinedTable, KeyError) as error:
        raise table_changed(place, table) from error
    if of.key and {column.name for column in shape.key} != set(of.key):
        raise table_changed(place, table, "has another key now")
    made, method = (CanonicalDigest, Method.CANONICAL) if of.canonical else (Digest, Method.HASH)
    return made(shape, of.columns, of.key, method)
