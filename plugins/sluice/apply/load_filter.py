"""Which changes of a window go to the slave while all of it is loaded (state TRANSITION).

The blocks are looked at after the end of the window was taken. Each event of a key is decided by
the block its key lies in; an event of a block that is being read waits until that block is stored
or planned again. What the first look found planned stays dropped, even when its reading begins
while we wait: it began after the look, so its marker covers the whole window.
"""

import logging
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sluice.apply.net_changes import KeyEvents
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.window_runs import CutItem
from sluice.control.blocks import BlockStore, block_map
from sluice.database.registry import source_of
from sluice.errors import Terminal
from sluice.model.blocks import BlockMap, BlockState, Decision, Key, TableBlocks, decide, decisions
from sluice.model.checkpoint import CheckpointMoved
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")

Kept = npt.NDArray[np.bool_]

Pause = Callable[[], None]
"""Waits a moment between two looks; raises when there is a reason to give up."""


class RowNotWhole(Terminal):
    """A row got another key, of which the source says no more than what changed, and came from a block without it."""

    def __init__(self, table: TableName, guid: str):
        super().__init__(
            f"{table}: while the table was loaded, a row got the key {guid[:80]!r}, and its change does not say the "
            "other columns, which are in no block. Let the master log all of them (ALTER TABLE … ADD SUPPLEMENTAL LOG "
            "DATA (ALL) COLUMNS), or change no keys meanwhile; then start an initial update of this table."
        )
        self.table = table


class LoadFilter:
    """One look at BLOCKS, and the decisions that follow from it.

    `applied`: the position from which the window goes on; blocks whose marker it has passed
    decide nothing any more.
    """

    def __init__(self, pair: Pair, sessions: PairSessions, applied: Position, pause: Pause):
        self.pair = pair
        self.sessions = sessions
        self.applied = applied
        self._pause = pause
        self.map = self._look()
        self._undecided = dict(self.map.undecided(applied))

    def complete(self, target: Position) -> bool:
        """True when every block is stored and `target` has passed all markers: the slave is consistent then."""
        return self.map.complete(target)

    def keep(self, found: KeyEvents, table: TableName) -> Kept | None:
        """For each event whether it is applied; None: all of them. Waits for blocks being read."""
        blocks = self._undecided.get(table)
        if blocks is None:
            return None
        xids = found.transactions.to_numpy(zero_copy_only=False)
        repl_keys = found.repl_keys.to_numpy(zero_copy_only=False)
        keys = keys_of(found)
        kept = np.zeros(len(found), dtype=bool)
        waiting = list(range(len(found)))
        while True:
            places = self._locate(table, blocks, [keys[event] for event in waiting])
            still: list[int] = []
            for event, place in zip(waiting, places, strict=True):
                decision = decide(blocks.blocks[place], int(xids[event]), int(repl_keys[event]))
                if decision is Decision.WAIT:
                    still.append(event)
                else:
                    kept[event] = decision is Decision.APPLY
            if not still:
                expect_whole(found, table, kept)
                return kept
            waiting = still
            blocks = self._look_again(table)

    def truncated(self, cut: CutItem) -> Decision:
        """What becomes of a TRUNCATE: APPLY or DROP for the whole table, WAIT where blocks differ.

        Blocks being read are waited for first. A mixture remains only when some blocks were read
        before the TRUNCATE and others after it.
        """
        table = cut.table
        if table not in self._undecided:
            return Decision.APPLY
        # Waiting for whatever is being read would last as long as the load. What began after the first look is read
        # after the window's end: its marker covers the TRUNCATE, as that of a planned block will.
        unsettled = {
            block.number
            for block in self.map.tables[table].blocks
            if block.state in (BlockState.BEGUN, BlockState.EXPORTED)
        }
        while any(
            block.number in unsettled and decide(block, cut.transaction, cut.repl_key) is Decision.WAIT
            for block in self.map.tables[table].blocks
        ):
            self._look_again(table)
        read = [block for block in self.map.tables[table].blocks if block.marker is not None]
        found = decisions(read, cut.transaction, cut.repl_key)
        if Decision.APPLY not in found:
            return Decision.DROP
        whole = len(read) == len(self.map.tables[table].blocks) and Decision.DROP not in found
        return Decision.APPLY if whole else Decision.WAIT

    def keys_to_truncate(self, cut: CutItem, keys: list[Key]) -> list[Key]:
        """Of the slave's `keys` those whose block was read before the TRUNCATE."""
        blocks = self._look().undecided(self.applied)[cut.table]
        places = self._locate(cut.table, blocks, keys)
        return [
            key
            for key, place in zip(keys, places, strict=True)
            if decide(blocks.blocks[place], cut.transaction, cut.repl_key) is Decision.APPLY
        ]

    def gone(self, table: TableName) -> None:
        """What follows in the window is of another table of that name, which the blocks know nothing of."""
        self._undecided.pop(table, None)

    def forget(self, table: TableName) -> None:
        """In the transaction that drops the slave's table or leaves it out: no loader need look for its blocks."""
        self.store().delete(table)

    def store(self) -> BlockStore:
        """BLOCKS, in the transaction that the slave's session is in."""
        slave = self.pair.slave
        return BlockStore(self.sessions.slave, self.pair.prefix, slave.schema, slave.name)

    def _locate(self, table: TableName, blocks: TableBlocks, keys: list[Key]) -> list[int]:
        bounds = blocks.bounds
        if not bounds:
            return [0] * len(keys)
        distinct = list(dict.fromkeys(keys))
        info = self.pair.master_info
        shape = self.sessions.schema_history[table]
        places = source_of(info.vendor).changes.locate(self.sessions.master, shape, bounds, distinct)
        place_of = dict(zip(distinct, places, strict=True))
        return [place_of[key] for key in keys]

    def _look(self) -> BlockMap:
        with self.sessions.slave_transaction() as slave:
            found: BlockMap = block_map(slave, self.pair.prefix, self.pair.slave.schema, self.pair.slave.name)
        return found

    def _look_again(self, table: TableName) -> TableBlocks:
        self._pause()
        self.map = self._look()
        if table not in self.map.tables:
            raise CheckpointMoved(f"the blocks of {table} are gone, a new initial update begins; all is read again")
        return self.map.tables[table].merged(self.applied)


def expect_whole(found: KeyEvents, table: TableName, kept: Kept) -> None:
    """Raises `RowNotWhole` where an UPDATE brings a row from a block that does not get it, and does not say all of
    it."""
    for event in np.flatnonzero(kept & found.after & (found.partner >= 0)):
        if not kept[found.partner[event]] and found.is_partial(int(event)):
            raise RowNotWhole(table, found.guid[int(event)].as_py())


def keys_of(found: KeyEvents) -> list[Key]:
    """The key of each event."""
    if not found.key:
        return [()] * len(found)
    return list(zip(*(column.to_pylist() for column in found.key_values()), strict=True))
