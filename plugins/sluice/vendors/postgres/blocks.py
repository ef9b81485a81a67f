"""The rows of `<prefix>BLOCKS` on a PostgreSQL slave, and where a key lies on a PostgreSQL master."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg

from sluice import sql_files
from sluice.domain.blocks import Block, BlockMap, BlockState, Key
from sluice.domain.names import Prefix, TableName
from sluice.domain.position import Position
from sluice.domain.shape import TableShape
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.ranges import typed


def load(
    connection: psycopg.Connection[Any],
    prefix: Prefix,
    schema: str,
    slave: str,
    tables: Iterable[TableName] | None = None,
) -> BlockMap:
    """All blocks of the slave, or those of `tables`, in one look (one statement, hence one snapshot).

    For the apply: look after the end of the window was taken, in a transaction that took no
    snapshot before. Raises `BlocksDamaged` and psycopg's errors.
    """
    wanted = None if tables is None else list(tables)
    rows = connection.execute(
        sql_files.render("postgres", "blocks_load", prefix=prefix.lower, schema=quoted(schema)),
        {
            "slave": slave,
            "schemas": None if wanted is None else [table.schema for table in wanted],
            "names": None if wanted is None else [table.name for table in wanted],
        },
    ).fetchall()
    return BlockMap.of(_block(row) for row in rows)


def locate(
    connection: psycopg.Connection[Any], shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]
) -> list[int]:
    """For each key the place of its block in `TableBlocks.blocks`: how many `bounds` are at or below it.

    `bounds` as `TableBlocks.bounds` gives them, keys as canonical texts; both in the order of
    `shape.key`. Asks the MASTER: the slave, or Python, could order texts differently.
    """
    if not bounds or not keys:
        return [0] * len(keys)
    names = [f"k{number}" for number in range(1, len(shape.key) + 1)]
    statement = sql_files.render(
        "postgres",
        "blocks_locate",
        arrays=", ".join(f"unnest(%({name})s::text[])" for name in names),
        columns=", ".join(names),
        typed=", ".join(typed(column, name) for name, column in zip(names, shape.key, strict=True)).replace("%", "%%"),
    )
    texts = [*bounds, *keys]
    parameters: dict[str, Any] = {name: [text[place] for text in texts] for place, name in enumerate(names)}
    rows = connection.execute(statement, {**parameters, "bounds": len(bounds)}).fetchall()
    return [place for (place,) in rows]


def key_text(key: Key | None) -> str | None:
    """A bound as BLOCKS holds it: a JSON array of texts."""
    return None if key is None else json.dumps(list(key), ensure_ascii=False)


def _key(text: str | None) -> Key | None:
    return None if text is None else tuple(json.loads(text))


def _block(row: Sequence[Any]) -> Block:
    schema, table, number, lo, hi, state, marker, rows, size, loader, begun_at, stored_at = row
    return Block(
        TableName(schema, table),
        number,
        _key(lo),
        _key(hi),
        BlockState(state),
        None if marker is None else Position.parse(marker),
        rows,
        size,
        loader,
        begun_at,
        stored_at,
    )
