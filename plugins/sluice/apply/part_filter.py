"""Decides which changes of a window are applied while some tables are loaded and all others are ready.

Nothing waits for a block. A change is applied where its block has caught up with the stream, otherwise it is left out;
at the end of the window, stored blocks get the changes they lack (`sluice.model.blocks`). Only the apply marks a block
as caught up, so it does not matter when BLOCKS is read.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from sluice.apply.apply_plan import CaughtUp
from sluice.apply.load_filter import Kept, LoadFilter, expect_complete_rows, keys_of
from sluice.apply.net_changes import KeyEvents
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.window_runs import CutItem
from sluice.model.blocks import Block, Decision, Key
from sluice.model.checkpoint import CheckpointMoved
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.pair import Pair


class PartFilter(LoadFilter):
    """The decisions of the blocks of `tables`, which are loading."""

    def __init__(self, pair: Pair, sessions: PairSessions, applied: Position, tables: Sequence[TableName]):
        super().__init__(pair, sessions, applied, pause=lambda: None)
        if gone := [str(table) for table in tables if table not in self.map.tables]:
            raise CheckpointMoved(f"the blocks of {', '.join(gone)} are gone: a load was cancelled; all is read again")
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
        places = self._locate(table, outline, keys_of(events))
        kept = np.array([outline.blocks[place].caught_up for place in places], dtype=bool)
        expect_complete_rows(events, table, kept)
        return kept

    def keep_of(self, events: KeyEvents, table: TableName, blocks: Sequence[Block]) -> Kept:
        """For each event whether it belongs to one of the stored `blocks` and is not in its rows yet."""
        all_blocks = self._loading[table]
        markers = {block.number: block.marker for block in blocks}
        xids = events.transactions.to_numpy(zero_copy_only=False)
        repl_keys = events.repl_keys.to_numpy(zero_copy_only=False)
        kept = np.zeros(len(events), dtype=bool)
        for event, place in enumerate(self._locate(table, all_blocks, keys_of(events))):
            marker = markers.get(all_blocks.blocks[place].number)
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
        """Decides on a TRUNCATE: WAIT where some blocks have caught up; then their rows are deleted."""
        outline = self._outlines.get(cut.table)
        if outline is None or outline.caught_up:
            return Decision.APPLY
        return Decision.WAIT if any(block.caught_up for block in outline.blocks) else Decision.DROP

    def keys_to_truncate(self, cut: CutItem, keys: list[Key]) -> list[Key]:
        """The keys of the slave's `keys` whose block has caught up."""
        outline = self._outlines[cut.table]
        places = self._locate(cut.table, outline, keys)
        return [key for key, place in zip(keys, places, strict=True) if outline.blocks[place].caught_up]

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
