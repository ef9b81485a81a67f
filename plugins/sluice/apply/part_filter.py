"""Which changes of a window go to the slave while some tables are loaded and all others are ready.

Nothing waits for a block. A change is applied where its block has caught up with the stream, else it is left out;
what is missing of a block that is stored by now comes with the end of the window (`sluice.model.blocks`). Only the
apply says that a block has caught up, so that it does not matter when BLOCKS is looked at.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from sluice.apply.apply_plan import CaughtUp
from sluice.apply.load_filter import Kept, LoadFilter, expect_whole, keys_of
from sluice.apply.net_changes import KeyEvents
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.window_runs import CutItem
from sluice.model.blocks import Block, Decision, Key
from sluice.model.checkpoint import CheckpointMoved
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.pair import Pair


class PartFilter(LoadFilter):
    """One look at BLOCKS, for `tables`: those that are loading."""

    def __init__(self, pair: Pair, sessions: PairSessions, applied: Position, tables: Sequence[TableName]):
        super().__init__(pair, sessions, applied, pause=lambda: None)
        if gone := [str(table) for table in tables if table not in self.map.tables]:
            raise CheckpointMoved(f"the blocks of {', '.join(gone)} are gone: a load was cancelled; all is read again")
        self._loading = {table: self.map.tables[table] for table in tables}
        self._outlines = {table: blocks.outline for table, blocks in self._loading.items()}
        self._read_again: set[TableName] = set()

    def complete(self, target: Position) -> bool:
        """The slave is NORMAL all the time."""
        del target
        return False

    def keep(self, found: KeyEvents, table: TableName) -> Kept | None:
        """For each event whether it is applied; None: all of them."""
        outline = self._outlines.get(table)
        if outline is None or outline.caught_up:
            return None
        if not any(block.caught_up for block in outline.blocks):
            return np.zeros(len(found), dtype=bool)
        places = self._locate(table, outline, keys_of(found))
        kept = np.array([outline.blocks[place].caught_up for place in places], dtype=bool)
        expect_whole(found, table, kept)
        return kept

    def keep_of(self, found: KeyEvents, table: TableName, blocks: Sequence[Block]) -> Kept:
        """For each event whether it is of one of the stored `blocks`, and not in its rows yet."""
        own = self._loading[table]
        chosen = {block.number: block.marker for block in blocks}
        xids = found.transactions.to_numpy(zero_copy_only=False)
        repl_keys = found.repl_keys.to_numpy(zero_copy_only=False)
        kept = np.zeros(len(found), dtype=bool)
        for event, place in enumerate(self._locate(table, own, keys_of(found))):
            marker = chosen.get(own.blocks[place].number)
            kept[event] = marker is not None and not marker.covers(int(xids[event]), int(repl_keys[event]))
        expect_whole(found, table, kept)
        return kept

    def catching_up(self, end: Position) -> Iterator[CaughtUp]:
        """What catches up with the window that ends at `end`, one step a table."""
        for table, own in self._loading.items():
            found = [] if table in self._read_again else own.catching_up(end)
            if found:
                behind = sum(not block.caught_up for block in own.blocks)
                yield CaughtUp(table, found, ready=len(found) == behind)

    def own_blocks(self, table: TableName) -> Sequence[Block]:
        """Those of a table that is loading; none of another one."""
        own = self._loading.get(table)
        return own.blocks if own is not None else ()

    def truncated(self, cut: CutItem) -> Decision:
        """What becomes of a TRUNCATE: WAIT where some blocks have caught up, whose rows go then."""
        outline = self._outlines.get(cut.table)
        if outline is None or outline.caught_up:
            return Decision.APPLY
        return Decision.WAIT if any(block.caught_up for block in outline.blocks) else Decision.DROP

    def keys_to_truncate(self, cut: CutItem, keys: list[Key]) -> list[Key]:
        """Of the slave's `keys` those whose block has caught up."""
        outline = self._outlines[cut.table]
        places = self._locate(cut.table, outline, keys)
        return [key for key, place in zip(keys, places, strict=True) if outline.blocks[place].caught_up]

    def gone(self, table: TableName) -> None:
        """What follows in the window is of another table of that name, or left out."""
        self._loading.pop(table, None)
        self._outlines.pop(table, None)

    def read_again(self, table: TableName) -> None:
        """The blocks of `table` that have not caught up will be read once more, after the end of this window.

        In a transaction of its own: a loader that has one in hand gives it up, and lets go of the slave's table.
        """
        with self.sessions.slave_transaction():
            self.store().read_again(table)
        self._read_again.add(table)
