"""The rows of `<prefix>BLOCKS` on a PostgreSQL slave, and where a key lies on a PostgreSQL master."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sluice import sql_files
from sluice.database import positions
from sluice.database.control import Claim, TableProgress
from sluice.database.session import Rows, Session
from sluice.model.blocks import Block, BlockMap, BlockState, Key
from sluice.model.key_ranges import Part
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.shape import Column, TableShape
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.key_order import typed


def load(
    connection: Session,
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


def locate(connection: Session, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
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
        columns=", ".join(
            f"unnest(%({name})s::{array_type(column)}) AS {name}" for name, column in zip(names, shape.key, strict=True)
        ),
        typed=", ".join(typed(column, name) for name, column in zip(names, shape.key, strict=True)).replace("%", "%%"),
    )
    texts = [*bounds, *keys]
    parameters: dict[str, Any] = {
        name: array_literal([text[place] for text in texts]) for place, name in enumerate(names)
    }
    rows = connection.execute(statement, {**parameters, "bounds": len(bounds), "texts": len(texts)}).fetchall()
    return [place for (place,) in rows]


def array_type(column: Column) -> str:
    """The type in which the texts of a key column are handed over: the input function of an array reads its elements
    by their own, where a cast from text would call whatever function the type's owner made one of."""
    # Elements that are arrays would be taken for further dimensions.
    return ("text[]" if column.type.endswith("[]") else f"{column.type}[]").replace("%", "%%")


def array_literal(texts: Sequence[str | None]) -> str:
    """Texts as the literal of an array; None is NULL."""
    escaped = ("NULL" if text is None else '"' + _escaped(text) + '"' for text in texts)
    return "{" + ",".join(escaped) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


class BlockStore:
    """What the initial update and its loaders write to BLOCKS of one slave. The caller commits.

    Every method raises psycopg's errors as they are; callers classify them.
    """

    def __init__(self, connection: Session, prefix: Prefix, schema: str, slave: str):
        self.connection = connection
        self.slave = slave
        self._names = {"prefix": prefix.lower, "schema": quoted(schema)}

    def plan(
        self,
        tables: Sequence[TableName],
        *,
        made: bool = False,
        marker: Position | None = None,
        snapshot: str | None = None,
    ) -> None:
        """One open block for each table, to be loaded in this order; its first one where it has blocks.

        `made`: the update made them just now; `marker` and `snapshot`: in which all of them are read.
        """
        self._execute(
            "blocks_plan",
            schemas=[table.schema for table in tables],
            names=[table.name for table in tables],
            made=made,
            marker=marker.text() if marker else None,
            snapshot=snapshot,
        )

    def choose(self, part: Part, marker: Position, place: int) -> None:
        """The blocks of a table of which a part is loaded; the slave holds the rest as of `marker`."""
        blocks = part.blocks()
        self._execute(
            "blocks_choose",
            schema=part.table.schema,
            name=part.table.name,
            los=[key_text(lo) for lo, _, _ in blocks],
            his=[key_text(hi) for _, hi, _ in blocks],
            chosen=[chosen for _, _, chosen in blocks],
            marker=marker.text(),
            place=place,
        )

    def plan_again(self, marker: Position, snapshot: str) -> None:
        """The parts that are loaded are planned once more, to be read in `snapshot`."""
        self._execute("blocks_again", marker=marker.text(), snapshot=snapshot)

    def reset(self, tables: Sequence[TableName]) -> None:
        """Forgets all blocks but the first of each of `tables`: `plan` begins that one anew."""
        self._execute(
            "blocks_reset", schemas=[table.schema for table in tables], names=[table.name for table in tables]
        )

    def made(self) -> set[TableName]:
        """The tables that the update under way made."""
        return {TableName(*row) for row in self._execute("blocks_made").fetchall()}

    def in_snapshot(self) -> bool:
        """Whether blocks were planned in a snapshot held for all of them."""
        row = self._execute("blocks_in_snapshot").fetchone()
        return bool(row and row[0])

    def hold(self, loader: str) -> None:
        """All planned blocks are begun by `loader`, which is none of this slave's own."""
        self._execute("blocks_hold", loader=loader)

    def adopt(self, blocks: Sequence[Block]) -> None:
        """Blocks that were exported for another slave, in files that are this one's as well."""
        self._execute(
            "blocks_adopt",
            schemas=[block.table.schema for block in blocks],
            names=[block.table.name for block in blocks],
            blocks=[block.number for block in blocks],
            los=[key_text(block.lo) for block in blocks],
            his=[key_text(block.hi) for block in blocks],
            markers=[block.marker.text() if block.marker else None for block in blocks],
            rows=[block.rows for block in blocks],
            bytes=[block.bytes for block in blocks],
            files=[block.file for block in blocks],
            sums=[block.sha256 for block in blocks],
        )

    def claim(self, leave_alone: Iterable[TableName] = (), *, tables: int = 256, ranges: int = 256) -> Claim | None:
        """A planned block, locked; None when there is none that other loaders do not hold.

        `leave_alone`: tables to pass over. Of all that is read at the same time `ranges` blocks may be of one table,
        and they may be of that many `tables`; where these bind, call `updates.claim_in_turn` first.
        """
        resting = list(leave_alone)
        row = self._execute(
            "blocks_claim",
            schemas=[table.schema for table in resting],
            names=[table.name for table in resting],
            tables=tables,
            ranges=ranges,
        ).fetchone()
        if row is None:
            return None
        schema, table, number, lo, hi, marker, snapshot, tries, *last = row
        block = Block(
            TableName(schema, table),
            number,
            _key(lo),
            _key(hi),
            marker=None if marker is None else positions.parse(marker),
            snapshot=snapshot,
            tries=tries,
        )
        return Claim(block, *last)

    def begin(self, block: Block, hi: Key | None, loader: str) -> bool:
        """The claimed block is begun and ends at `hi`; what lay behind becomes a planned block.

        Must be committed before the loader takes its snapshot on the master: a change decided
        "drop" because the block was planned relies on it. False when it was not planned any more.
        """
        cursor = self._execute(
            "blocks_begin",
            **self._place(block),
            hi=key_text(hi),
            rest=hi is not None and hi != block.hi,
            rest_hi=key_text(block.hi),
            loader=loader,
        )
        return cursor.fetchone() is not None

    def is_mine(self, block: Block, loader: str) -> bool:
        """Whether the block is still begun by `loader`."""
        row = self._execute("blocks_mine", **self._place(block), loader=loader).fetchone()
        return bool(row and row[0])

    def give_way(self, block: Block, loader: str, seconds: float) -> None:
        """The begun block rests for some seconds, because its rows are locked on the master."""
        self._execute("blocks_give_way", **self._place(block), loader=loader, seconds=seconds)

    def store(self, block: Block, loader: str, marker: Position, rows: int, size: int) -> bool:
        """The block is stored, in the transaction that carries its rows.

        False when it is no longer begun by `loader`: the caller must roll back, because another
        one may have read it at a later marker.
        """
        cursor = self._execute(
            "blocks_store", **self._place(block), loader=loader, marker=marker.text(), rows=rows, bytes=size
        )
        return cursor.rowcount == 1

    def export(self, block: Block, loader: str, marker: Position, rows: int, size: int, file: str, sha256: str) -> bool:
        """The block is in `file`, which is whole. False when it is no longer begun by `loader`."""
        cursor = self._execute(
            "blocks_export", **self._place(block), loader=loader, marker=marker.text(), rows=rows, bytes=size,
            file=file, sha256=sha256,
        )  # fmt: skip
        return cursor.rowcount == 1

    def begin_import(self, loader: str, leave_alone: Iterable[TableName] = ()) -> Block | None:
        """An exported block, begun by `loader`; None when there is none that other importers do not hold."""
        tables = list(leave_alone)
        row = self._execute(
            "blocks_import",
            loader=loader,
            schemas=[table.schema for table in tables],
            names=[table.name for table in tables],
        ).fetchone()
        if row is None:
            return None
        schema, table, number, lo, hi, file = row
        return Block(
            TableName(schema, table), number, _key(lo), _key(hi), BlockState.BEGUN, loader=loader, file=file
        )  # fmt: skip

    def release(self, *, kin: str = "") -> int:
        """Puts begun blocks back to planned, or to exported when they were being imported. Returns how many.

        Those of loaders whose names begin with `kin`. Safe at any moment, as `store` refuses a loader whose block
        was put back.
        """
        return self._execute("blocks_release", kin=kin).rowcount

    def left(self) -> tuple[int, int, int]:
        """How many blocks are planned, begun, and exported."""
        row = self._execute("blocks_left").fetchone()
        assert row is not None
        return row[0], row[1], row[2]

    def delete(self, table: TableName | None = None) -> int:
        """Forgets the blocks of one table or of all. Returns how many."""
        return self._execute(
            "blocks_delete",
            schema=table.schema if table else None,
            name=table.name if table else None,
        ).rowcount

    def progress(self, seconds: float = 10.0) -> list[TableProgress]:
        """One entry a table, in the order of loading; the rate is that of the last `seconds`."""
        rows = self._execute("blocks_progress", seconds=seconds).fetchall()
        return [TableProgress(TableName(schema, name), *values) for schema, name, *values in rows]

    def _place(self, block: Block) -> dict[str, Any]:
        return {"schema": block.table.schema, "name": block.table.name, "block": block.number}

    def _execute(self, statement: str, **values: Any) -> Rows:
        return self.connection.execute(
            sql_files.render("postgres", statement, **self._names), {"slave": self.slave, **values}
        )


def key_text(key: Key | None) -> str | None:
    """A bound as BLOCKS holds it: a JSON array of texts."""
    return None if key is None else json.dumps(list(key), ensure_ascii=False)


def _key(text: str | None) -> Key | None:
    return None if text is None else tuple(json.loads(text))


def _block(row: Sequence[Any]) -> Block:
    schema, table, number, lo, hi, state, marker, rows, size, loader, begun_at, stored_at, file, sha256, snapshot = row
    return Block(
        TableName(schema, table),
        number,
        _key(lo),
        _key(hi),
        BlockState(state),
        None if marker is None else positions.parse(marker),
        rows,
        size,
        loader,
        begun_at,
        stored_at,
        file,
        sha256,
        snapshot,
    )
