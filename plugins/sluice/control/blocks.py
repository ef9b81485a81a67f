"""The rows of `<prefix>BLOCKS` of a slave: what the initial update and its loaders write. The caller commits."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sluice.control.own_tables import Statements, tables_among
from sluice.database import positions
from sluice.database.control import Claim, TableProgress
from sluice.database.session import Session
from sluice.model.blocks import Block, BlockMap, BlockState, Key
from sluice.model.key_ranges import Part
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position

ALL, NONE = "1 = 1", "1 = 0"


def block_map(
    connection: Session, prefix: Prefix, schema: str, slave: str, tables: Iterable[TableName] | None = None
) -> BlockMap:
    """All blocks of the slave, or those of `tables`, in one look (one statement, hence one snapshot).

    For the apply: look after the end of the window was taken, in a transaction that took no snapshot before. Raises
    `BlocksDamaged`.
    """
    chosen, parameters = (ALL, {}) if tables is None else _among(list(tables))
    statements = Statements(connection, prefix, schema, slave)
    rows = statements.execute("blocks_load", {"tables": chosen}, **parameters).fetchall()
    return BlockMap.of(_block(row) for row in rows)


class BlockStore:
    """Over a session that the caller owns."""

    def __init__(self, connection: Session, prefix: Prefix, schema: str, slave: str):
        self.connection = connection
        self.slave = slave
        self._statements = Statements(connection, prefix, schema, slave)
        self._execute = self._statements.execute

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
        read_at = {"made": made, "marker": marker.text() if marker else None, "snapshot": snapshot}
        times = self._in_order(len(tables))
        self._statements.execute_many(
            "blocks_plan",
            [
                {"table_schema": table.schema, "name": table.name, "planned_at": time, **read_at}
                for table, time in zip(tables, times, strict=True)
            ],
        )

    def choose(self, part: Part, place: int) -> None:
        """The blocks of a table of which a part is loaded; the slave has the rest as of its checkpoint."""
        now = self.connection.clock()
        planned_at = now + timedelta(microseconds=place)
        rest = {"table_schema": part.table.schema, "name": part.table.name, "planned_at": planned_at}
        self._statements.execute_many(
            "blocks_choose",
            [
                {
                    **rest,
                    "block": number,
                    "lo": key_text(lo),
                    "hi": key_text(hi),
                    "state": str(BlockState.PLANNED if chosen else BlockState.STORED),
                    "stored_at": None if chosen else now,
                }
                for number, (lo, hi, chosen) in enumerate(part.blocks(), start=1)
            ],
        )

    def plan_again(self, marker: Position, snapshot: str) -> None:
        """The parts that are loaded are planned once more, to be read in `snapshot`."""
        self._execute("blocks_again", marker=marker.text(), snapshot=snapshot)

    def caught_up(self, block: Block) -> bool:
        """The stream has passed the stored block. False when it is not what it was when `block` was looked at."""
        assert block.marker is not None, "stored, and not passed yet"
        return self._execute("blocks_caught_up", **_place(block), marker=block.marker.text()).rowcount == 1

    def read_again(self, table: TableName) -> int:
        """The blocks of `table` that have not caught up are planned, whatever they were. Returns how many.

        Safe at any moment: storing demands that a block is still begun by its loader.
        """
        return self._execute("blocks_read_again", table_schema=table.schema, name=table.name).rowcount

    def reset(self, tables: Sequence[TableName]) -> None:
        """Forgets all blocks but the first of each of `tables`: `plan` begins that one anew."""
        chosen, parameters = _among(tables)
        self._execute("blocks_reset", {"tables": chosen}, **parameters)

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
        self._statements.execute_many(
            "blocks_adopt",
            [
                {
                    **_place(block),
                    "lo": key_text(block.lo),
                    "hi": key_text(block.hi),
                    "marker": block.marker.text() if block.marker else None,
                    "rows": block.rows,
                    "bytes": block.bytes,
                    "file": block.file,
                    "sum": block.sha256,
                    "planned_at": time,
                }
                for block, time in zip(blocks, self._in_order(len(blocks)), strict=True)
            ],
        )

    def claim(self, leave_alone: Iterable[TableName] = (), *, tables: int = 256, ranges: int = 256) -> Claim | None:
        """A planned block, locked; None when there is none that other loaders do not hold.

        `leave_alone`: tables to pass over. Of all that is read at the same time `ranges` blocks may be of one table,
        and they may be of that many `tables`; where these bind, call `LoadLocks.claim_in_turn` first.
        """
        being_read = {TableName(schema, name): count for schema, name, count in self._execute("blocks_open").fetchall()}
        full = [table for table, count in being_read.items() if count >= ranges]
        rest, parameters = _except([*full, *leave_alone])
        if len(being_read) >= tables:
            only, more = _among(sorted(being_read), "open")
            rest, parameters = f"{rest} AND {only}", parameters | more
        row = self._execute("blocks_claim", {"rest": rest}, **parameters).fetchone()
        if row is None:
            return None
        schema, table, number, lo, hi, marker, snapshot, tries = row
        block = Block(
            TableName(schema, table),
            number,
            _key(lo),
            _key(hi),
            marker=None if marker is None else positions.parse(marker),
            snapshot=snapshot,
            tries=tries,
        )
        last = self._execute("blocks_last", table_schema=schema, name=table).fetchone()
        if last is None:
            return Claim(block, None, None, None)
        rows, size, begun_at, stored_at = last
        seconds = (stored_at - begun_at).total_seconds() if begun_at and stored_at else None
        return Claim(block, rows, size, seconds)

    def planned(self, table: TableName) -> list[Block]:
        """The blocks of one table that may be begun."""
        rows = self._execute("blocks_planned", table_schema=table.schema, name=table.name).fetchall()
        return [Block(table, number, _key(lo), _key(hi)) for number, lo, hi in rows]

    def begin(self, block: Block, hi: Key | None, loader: str) -> bool:
        """The claimed block is begun and ends at `hi`; what lay behind becomes a planned block.

        Must be committed before the loader takes its snapshot on the master: a change decided "drop" because the block
        was planned relies on it. False when it was not planned any more.
        """
        place = _place(block)
        if self._execute("blocks_begin", **place, hi=key_text(hi), loader=loader).rowcount != 1:
            return False
        if hi is not None and hi != block.hi:
            self._execute("blocks_rest", **place, hi=key_text(hi), rest_hi=key_text(block.hi))
        return True

    def is_mine(self, block: Block, loader: str) -> bool:
        """Whether the block is still begun by `loader`."""
        row = self._execute("blocks_mine", **_place(block), loader=loader).fetchone()
        return bool(row and row[0])

    def give_way(self, block: Block, loader: str, seconds: float) -> None:
        """The begun block rests for some seconds, because its rows are locked on the master."""
        until = self.connection.clock() + timedelta(seconds=seconds)
        self._execute("blocks_give_way", **_place(block), loader=loader, retry_at=until)

    def store(self, block: Block, loader: str, marker: Position, rows: int, size: int) -> bool:
        """The block is stored, in the transaction that carries its rows.

        False when it is no longer begun by `loader`: the caller must roll back, because another
        one may have read it at a later marker.
        """
        done = self._execute(
            "blocks_store", **_place(block), loader=loader, marker=marker.text(), rows=rows, bytes=size
        )
        return done.rowcount == 1

    def export(self, block: Block, loader: str, marker: Position, rows: int, size: int, file: str, sha256: str) -> bool:
        """The block is in `file`, which is whole. False when it is no longer begun by `loader`."""
        done = self._execute(
            "blocks_export", **_place(block), loader=loader, marker=marker.text(), rows=rows, bytes=size,
            file=file, sha256=sha256,
        )  # fmt: skip
        return done.rowcount == 1

    def begin_import(self, loader: str, leave_alone: Iterable[TableName] = ()) -> Block | None:
        """An exported block, begun by `loader`; None when there is none that other importers do not hold."""
        rest, parameters = _except(list(leave_alone))
        row = self._execute("blocks_import", {"rest": rest}, **parameters).fetchone()
        if row is None:
            return None
        schema, table, number, lo, hi, file = row
        block = Block(TableName(schema, table), number, _key(lo), _key(hi), BlockState.BEGUN, loader=loader, file=file)
        self._execute("blocks_importing", **_place(block), loader=loader)
        return block

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
        chosen, parameters = (ALL, {}) if table is None else _among([table])
        return self._execute("blocks_delete", {"tables": chosen}, **parameters).rowcount

    def progress(self, seconds: float = 10.0) -> list[TableProgress]:
        """One entry a table, in the order of loading; the rate is that of the last `seconds`."""
        since = self.connection.clock() - timedelta(seconds=seconds)
        return [
            TableProgress(
                TableName(schema, name), planned, begun, stored, int(rows), int(size), int(late) / seconds, *more
            )
            for schema, name, planned, begun, stored, rows, size, late, *more in self._execute(
                "blocks_progress", since=since
            ).fetchall()
        ]

    def _in_order(self, number: int) -> list[datetime]:
        """As many times of planning: loaders take the blocks by them."""
        now = self.connection.clock()
        return [now + timedelta(microseconds=place) for place in range(1, number + 1)]


def key_text(key: Key | None) -> str | None:
    """A bound as BLOCKS holds it: a JSON array of texts."""
    return None if key is None else json.dumps(list(key), ensure_ascii=False)


def _among(tables: Sequence[TableName], name: str = "of") -> tuple[str, dict[str, object]]:
    return tables_among('"schema"', "tablename", tables, name)


def _except(tables: Sequence[TableName]) -> tuple[str, dict[str, object]]:
    chosen, parameters = _among(tables)
    return (f"NOT {chosen}" if tables else ALL), parameters


def _place(block: Block) -> dict[str, object]:
    return {"table_schema": block.table.schema, "name": block.table.name, "block": block.number}


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
