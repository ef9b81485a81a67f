"""The rows of `<prefix>BLOCKS` of a slave: what the initial update and its loaders write."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sluice.control.own_tables import SlaveStore, tables_among
from sluice.database import registry
from sluice.database.control import Claim, TableProgress
from sluice.model.blocks import Block, BlockMap, BlockState, Key
from sluice.model.key_ranges import Part
from sluice.model.manifest import File
from sluice.model.names import TableName
from sluice.model.position import Position

ALL, NONE = "1 = 1", "1 = 0"


class BlockStore(SlaveStore):
    """Reads and writes the blocks of one slave."""

    def map(self, tables: Iterable[TableName] | None = None) -> BlockMap:
        """All blocks of the slave, or those of `tables`, read by one statement, hence in one snapshot.

        For the apply: call it after the end of the window was taken, in a transaction that took no snapshot before.
        Raises `blocks-damaged`.
        """
        chosen, parameters = (ALL, {}) if tables is None else _among(list(tables))
        return BlockMap.of(_block(row) for row in self._execute("blocks_load", {"tables": chosen}, **parameters))

    def plan(
        self,
        tables: Sequence[TableName],
        *,
        made: bool = False,
        marker: Position | None = None,
        snapshot: str | None = None,
    ) -> None:
        """Plans one block without bounds for each table, loaded in this order; a table with blocks keeps its first.

        `made`: the update created the tables; `marker` and `snapshot`: of the snapshot in which all blocks are read.
        """
        read_at = {"made": made, "marker": marker.text() if marker else None, "snapshot": snapshot}
        times = self._in_order(len(tables))
        self._execute_many(
            "blocks_plan",
            [
                {"table_schema": table.schema, "name": table.name, "planned_at": time, **read_at}
                for table, time in zip(tables, times, strict=True)
            ],
        )

    def choose(self, part: Part, index: int) -> None:
        """Plans the blocks of a table of which a part is loaded; the slave's other rows are as of its checkpoint."""
        now = self.connection.clock()
        planned_at = now + timedelta(microseconds=index)
        rest = {"table_schema": part.table.schema, "name": part.table.name, "planned_at": planned_at}
        self._execute_many(
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
        """Plans the parts that are loaded again, to be read in `snapshot`."""
        self._execute("blocks_again", marker=marker.text(), snapshot=snapshot)

    def caught_up(self, block: Block) -> bool:
        """Notes that the apply has passed the block's marker. False when the block was changed since it was read."""
        assert block.marker is not None, "a stored block has a marker"
        return self._execute("blocks_caught_up", **_columns_of(block), marker=block.marker.text()).rowcount == 1

    def read_again(self, table: TableName) -> int:
        """Plans the blocks of `table` again that have not caught up, in any state. Returns how many.

        Safe at any moment, as `store` refuses a block that its loader has no longer begun.
        """
        return self._execute("blocks_read_again", table_schema=table.schema, name=table.name).rowcount

    def reset(self, tables: Sequence[TableName]) -> None:
        """Deletes all blocks but the first of each of `tables`, which `plan` plans again."""
        chosen, parameters = _among(tables)
        self._execute("blocks_reset", {"tables": chosen}, **parameters)

    def made(self) -> set[TableName]:
        """The tables that the running update created."""
        return {TableName(*row) for row in self._execute("blocks_made").fetchall()}

    def in_snapshot(self) -> bool:
        """Whether blocks were planned in a snapshot held for all of them."""
        row = self._execute("blocks_in_snapshot").fetchone()
        return bool(row and row[0])

    def hold(self, loader: str) -> None:
        """Marks all planned blocks begun by `loader`, which loads for another slave."""
        self._execute("blocks_hold", loader=loader)

    def adopt(self, blocks: Sequence[Block]) -> None:
        """Writes blocks that were exported for another slave; this one uses the same files."""
        self._execute_many(
            "blocks_adopt",
            [
                {
                    **_columns_of(block),
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
        """Locks and returns a planned block; None if other loaders have locked all of them.

        `leave_alone`: tables to skip. At most `ranges` blocks of a table, and blocks of at most `tables` tables are
        read at the same time; if these limits apply, call `LoadLocks.claim_in_turn` first.
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
            marker=None if marker is None else registry.parse_position(marker),
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
        """Marks the claimed block begun, with the end `hi`; the rest of it becomes a planned block.

        Commit it before the loader takes its snapshot on the master: a change is dropped because its block is still
        planned, and so will be read later. False when the block was no longer planned.
        """
        target = _columns_of(block)
        if self._execute("blocks_begin", **target, hi=key_text(hi), loader=loader).rowcount != 1:
            return False
        if hi is not None and hi != block.hi:
            self._execute("blocks_rest", **target, hi=key_text(hi), rest_hi=key_text(block.hi))
        return True

    def is_begun_by(self, block: Block, loader: str) -> bool:
        """Whether the block is still begun by `loader`."""
        row = self._execute("blocks_mine", **_columns_of(block), loader=loader).fetchone()
        return bool(row and row[0])

    def give_way(self, block: Block, loader: str, seconds: float) -> None:
        """Puts the begun block back for some seconds, because its rows are locked on the master."""
        until = self.connection.clock() + timedelta(seconds=seconds)
        self._execute("blocks_give_way", **_columns_of(block), loader=loader, retry_at=until)

    def store(self, block: Block, loader: str, marker: Position, rows: int, size: int) -> bool:
        """Marks the block stored; call it in the transaction that writes its rows.

        False when it is no longer begun by `loader`: the caller must roll back, because another
        loader may have read it at a later marker.
        """
        done = self._execute(
            "blocks_store", **_columns_of(block), loader=loader, marker=marker.text(), rows=rows, bytes=size
        )
        return done.rowcount == 1

    def export(self, block: Block, loader: str, marker: Position, rows: int, size: int, file: File) -> bool:
        """Marks the block exported to `file`, which is complete. False when it is no longer begun by `loader`."""
        done = self._execute(
            "blocks_export", **_columns_of(block), loader=loader, marker=marker.text(), rows=rows, bytes=size,
            file=file.name, sha256=file.sha256,
        )  # fmt: skip
        return done.rowcount == 1

    def begin_import(self, loader: str, leave_alone: Iterable[TableName] = ()) -> Block | None:
        """Marks an exported block begun by `loader` and returns it; None if other importers have locked all."""
        rest, parameters = _except(list(leave_alone))
        row = self._execute("blocks_import", {"rest": rest}, **parameters).fetchone()
        if row is None:
            return None
        schema, table, number, lo, hi, file = row
        block = Block(TableName(schema, table), number, _key(lo), _key(hi), BlockState.BEGUN, loader=loader, file=file)
        self._execute("blocks_importing", **_columns_of(block), loader=loader)
        return block

    def release(self, *, loader_prefix: str = "") -> int:
        """Puts begun blocks back to planned, or to exported when they were being imported. Returns how many.

        Of all loaders whose names begin with `loader_prefix`. Safe at any moment, as `store` refuses a loader whose
        block was put back.
        """
        return self._execute("blocks_release", kin=loader_prefix).rowcount

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
        """The progress of each table, in the order of loading; its rate over the last `seconds`."""
        since = self.connection.clock() - timedelta(seconds=seconds)
        return [
            TableProgress(
                TableName(schema, name), planned, begun, stored, int(rows), int(size), int(late) / seconds, exported
            )
            for schema, name, planned, begun, stored, rows, size, late, exported in self._execute(
                "blocks_progress", since=since
            ).fetchall()
        ]

    def _in_order(self, number: int) -> list[datetime]:
        """So many ascending planning times; loaders claim blocks in their order."""
        now = self.connection.clock()
        return [now + timedelta(microseconds=index) for index in range(1, number + 1)]


def key_text(key: Key | None) -> str | None:
    """A bound as BLOCKS holds it: a JSON array of texts."""
    return None if key is None else json.dumps(list(key), ensure_ascii=False)


def _among(tables: Sequence[TableName], name: str = "of") -> tuple[str, dict[str, object]]:
    return tables_among('"schema"', "tablename", tables, name)


def _except(tables: Sequence[TableName]) -> tuple[str, dict[str, object]]:
    chosen, parameters = _among(tables)
    return (f"NOT {chosen}" if tables else ALL), parameters


def _columns_of(block: Block) -> dict[str, object]:
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
        None if marker is None else registry.parse_position(marker),
        rows,
        size,
        loader,
        begun_at,
        stored_at,
        file,
        sha256,
        snapshot,
    )
