"""Decides which changes of a window are applied while the whole slave is loaded (state TRANSITION).

BLOCKS is read after the end of the window was taken. The block of a key decides each of its events; an event of a block
that is being read waits until the block is stored or planned again. An event of a block that the first reading found
planned is dropped, even when a loader begins the block meanwhile: its marker is later, so it covers the whole window.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sluice.apply.apply_plan import CaughtUp
from sluice.apply.net_changes import KeyEvents
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.window_runs import CutItem
from sluice.control.blocks import BlockStore
from sluice.database.errors import TableFailure
from sluice.model.blocks import Block, BlockMap, BlockState, Decision, Key, TableBlocks, decide, decisions
from sluice.model.checkpoint import CheckpointMoved
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")

Kept = npt.NDArray[np.bool_]

Pause = Callable[[], None]
"""Waits a moment before BLOCKS is read again; raises when waiting must end."""


class RowIncomplete(TableFailure):
    """A row moved from a block that is not applied to one that is, and its change does not say all of its columns."""

    def __init__(self, table: TableName, guid: str):
        super().__init__(
            table,
            f"{table}: while the table was loaded, a row got the key {guid[:80]!r}, and its change does not say the "
            "other columns, which are in no block. Let the master log all of them (ALTER TABLE … ADD SUPPLEMENTAL LOG "
            "DATA (ALL) COLUMNS), or change no keys meanwhile; then start an initial update of this table.",
        )


class LoadFilter:
    """BLOCKS, read once, and its decisions on one window.

    `applied`: where the window begins. Blocks whose marker it has passed decide nothing any more.
    """

    def __init__(self, pair: Pair, sessions: PairSessions, applied: Position, pause: Pause):
        self.pair = pair
        self.sessions = sessions
        self.applied = applied
        self._pause = pause
        self.map = self._read_blocks()
        self._undecided = dict(self.map.undecided(applied))

    def complete(self, target: Position) -> bool:
        """Whether every block is stored and `target` has passed all markers: the slave is consistent then."""
        return self.map.complete(target)

    def decides(self, table: TableName) -> bool:
        """Whether blocks of `table` decide which changes are applied."""
        return table in self._undecided

    def keep(self, events: KeyEvents, table: TableName) -> Kept | None:
        """For each event whether it is applied; None: all of them. Waits for blocks that are being read."""
        blocks = self._undecided.get(table)
        if blocks is None:
            return None
        xids = events.transactions.to_numpy(zero_copy_only=False)
        repl_keys = events.repl_keys.to_numpy(zero_copy_only=False)
        keys = keys_of(events)
        kept = np.zeros(len(events), dtype=bool)
        waiting = list(range(len(events)))
        while True:
            indices = self._locate(table, blocks, [keys[event] for event in waiting])
            undecided: list[int] = []
            for event, index in zip(waiting, indices, strict=True):
                decision = decide(blocks.blocks[index], int(xids[event]), int(repl_keys[event]))
                if decision is Decision.WAIT:
                    undecided.append(event)
                else:
                    kept[event] = decision is Decision.APPLY
            if not undecided:
                expect_complete_rows(events, table, kept)
                return kept
            waiting = undecided
            blocks = self._read_blocks_again(table)

    def truncated(self, cut: CutItem) -> Decision:
        """Decides on a TRUNCATE: APPLY or DROP for the whole table, WAIT if its blocks differ.

        Waits for blocks that are being read. Blocks differ only if some were read before the TRUNCATE and others
        after it.
        """
        table = cut.table
        if table not in self._undecided:
            return Decision.APPLY
        # Wait only for blocks that were being read at first; else we would wait as long as the load lasts. A block
        # begun later is read after the window's end, so its marker covers the TRUNCATE.
        being_read = {
            block.number
            for block in self.map.tables[table].blocks
            if block.state in (BlockState.BEGUN, BlockState.EXPORTED)
        }
        while any(
            block.number in being_read and decide(block, cut.transaction, cut.repl_key) is Decision.WAIT
            for block in self.map.tables[table].blocks
        ):
            self._read_blocks_again(table)
        read = [block for block in self.map.tables[table].blocks if block.marker is not None]
        decided = decisions(read, cut.transaction, cut.repl_key)
        if Decision.APPLY not in decided:
            return Decision.DROP
        whole = len(read) == len(self.map.tables[table].blocks) and Decision.DROP not in decided
        return Decision.APPLY if whole else Decision.WAIT

    def keys_to_truncate(self, cut: CutItem, keys: list[Key]) -> list[Key]:
        """The keys of the slave's `keys` whose block was read before the TRUNCATE."""
        blocks = self._read_blocks().undecided(self.applied)[cut.table]
        indices = self._locate(cut.table, blocks, keys)
        return [
            key
            for key, index in zip(keys, indices, strict=True)
            if decide(blocks.blocks[index], cut.transaction, cut.repl_key) is Decision.APPLY
        ]

    def gone(self, table: TableName) -> None:
        """Ends decisions on `table`: what follows in the window is of another table of that name."""
        self._undecided.pop(table, None)

    def forget(self, table: TableName) -> None:
        """Deletes the blocks of `table`, in the transaction that drops the table or leaves it out."""
        store = self.store()
        while store.delete(table):
            # A concurrent claim inserts another block, which a deletion that waits for the claim does not see.
            pass

    def store(self) -> BlockStore:
        """BLOCKS, in the open transaction of the slave's session."""
        return BlockStore.of(self.pair, self.sessions.slave)

    def _locate(self, table: TableName, blocks: TableBlocks, keys: list[Key]) -> list[int]:
        bounds = blocks.bounds
        if not bounds:
            return [0] * len(keys)
        distinct = list(dict.fromkeys(keys))
        shape = self.sessions.schema_history[table]
        indices = self.sessions.queue.locate(shape, bounds, distinct)
        place_of = dict(zip(distinct, indices, strict=True))
        return [place_of[key] for key in keys]

    def _read_blocks(self) -> BlockMap:
        with self.sessions.slave_transaction():
            return self.store().map()

    def _read_blocks_again(self, table: TableName) -> TableBlocks:
        self._pause()
        self.map = self._read_blocks()
        if table not in self.map.tables:
            raise CheckpointMoved(f"the blocks of {table} are gone, a new initial update begins; all is read again")
        return self.map.tables[table].merged(self.applied)


def expect_complete_rows(events: KeyEvents, table: TableName, kept: Kept) -> None:
    """Raises `RowIncomplete` if only the new key of an UPDATE is kept, and its image lacks columns."""
    for event in np.flatnonzero(kept & events.after & (events.partner >= 0)):
        if not kept[events.partner[event]] and events.is_partial(int(event)):
            raise RowIncomplete(table, events.guid[int(event)].as_py())


def keys_of(events: KeyEvents) -> list[Key]:
    """The key of each event."""
    if not events.key:
        return [()] * len(events)
    return list(zip(*(column.to_pylist() for column in events.key_values()), strict=True))


# Decides which changes of a window are applied while some tables are loaded and all others are ready.
#
# Nothing waits for a block. A change is applied if its block has caught up with the stream, otherwise it is left out.
# At the end of the window, stored blocks get the changes they lack (`sluice.model.blocks`). Only the apply marks a
# block as caught up, so it does not matter when BLOCKS is read.


class PartFilter(LoadFilter):
    """The decisions of the blocks of `tables`, which are loading."""

    def __init__(self, pair: Pair, sessions: PairSessions, applied: Position, tables: Sequence[TableName]):
        super().__init__(pair, sessions, applied, pause=lambda: None)
        if gone := [str(table) for table in tables if table not in self.map.tables]:
            raise CheckpointMoved(f"the blocks of {', '.join(gone)} are gone: a load was canceled; all is read again")
        self._loading = {table: self.map.tables[table] for table in tables}
        self._outlines = {table: blocks.outline for table, blocks in self._loading.items()}
        self._read_again: set[TableName] = set()

    def complete(self, target: Position) -> bool:
        """False: the slave is NORMAL all the time."""
        del target
        return False

    def keep(self, events: KeyEvents, table: TableName) -> Kept | None:
        """For each event whether it is applied; None: all of them."""
        outline = self._outlines.get(table)
        if outline is None or outline.caught_up:
            return None
        if not any(block.caught_up for block in outline.blocks):
            return np.zeros(len(events), dtype=bool)
        indices = self._locate(table, outline, keys_of(events))
        kept = np.array([outline.blocks[index].caught_up for index in indices], dtype=bool)
        expect_complete_rows(events, table, kept)
        return kept

    def keep_of(self, events: KeyEvents, table: TableName, blocks: Sequence[Block]) -> Kept:
        """For each event whether it belongs to one of the stored `blocks` and is not in its rows yet."""
        all_blocks = self._loading[table]
        markers = {block.number: block.marker for block in blocks}
        xids = events.transactions.to_numpy(zero_copy_only=False)
        repl_keys = events.repl_keys.to_numpy(zero_copy_only=False)
        kept = np.zeros(len(events), dtype=bool)
        for event, index in enumerate(self._locate(table, all_blocks, keys_of(events))):
            marker = markers.get(all_blocks.blocks[index].number)
            kept[event] = marker is not None and not marker.covers(int(xids[event]), int(repl_keys[event]))
        expect_complete_rows(events, table, kept)
        return kept

    def catching_up(self, end: Position) -> Iterator[CaughtUp]:
        """The blocks that can catch up with the window that ends at `end`, one step a table."""
        for table, table_blocks in self._loading.items():
            blocks = [] if table in self._read_again else table_blocks.catching_up(end)
            if blocks:
                behind = sum(not block.caught_up for block in table_blocks.blocks)
                yield CaughtUp(table, blocks, ready=len(blocks) == behind)

    def blocks_of(self, table: TableName) -> Sequence[Block]:
        """The blocks of a table that is loading; none of another table."""
        table_blocks = self._loading.get(table)
        return table_blocks.blocks if table_blocks is not None else ()

    def truncated(self, cut: CutItem) -> Decision:
        """Decides on a TRUNCATE: WAIT if some blocks have caught up; then their rows are deleted."""
        outline = self._outlines.get(cut.table)
        if outline is None or outline.caught_up:
            return Decision.APPLY
        return Decision.WAIT if any(block.caught_up for block in outline.blocks) else Decision.DROP

    def keys_to_truncate(self, cut: CutItem, keys: list[Key]) -> list[Key]:
        """The keys of the slave's `keys` whose block has caught up."""
        outline = self._outlines[cut.table]
        indices = self._locate(cut.table, outline, keys)
        return [key for key, index in zip(keys, indices, strict=True) if outline.blocks[index].caught_up]

    def gone(self, table: TableName) -> None:
        """Ends decisions on `table`: what follows in the window is of another table of that name, or left out."""
        self._loading.pop(table, None)
        self._outlines.pop(table, None)

    def read_again(self, table: TableName) -> None:
        """Plans the blocks of `table` that have not caught up again; they will be read after the end of this window.

        Commits that in its own transaction: a loader that has begun such a block gives it up and releases its
        locks on the slave's table.
        """
        with self.sessions.slave_transaction():
            self.store().read_again(table)
        self._read_again.add(table)
