"""Blocks: the key ranges in which tables are loaded, and how they decide on changes.

A block is read from the master in one short transaction, whose position is its marker: the block has every change that
the marker covers, and no other. The apply runs while blocks load, and decides on each change (`decide`).

Why no change is lost or applied twice: for a window `(P1, P2]` the apply reads BLOCKS after P2 was taken. The loader
commits "begun" before it takes its snapshot on the master. So a planned block is read later, its marker will cover all
of P2, and the block will contain the change: the change can be dropped. A begun block may have been read before or
after the change: the apply waits. For a stored block the marker decides. Rows, marker and "stored" are committed
together, so there is no fourth case.

A loader that died leaves a begun block, which is planned again. This is safe at any time, even while the loader lives:
it can store the block only if the block is still begun by itself.

If all blocks are read in one snapshot, each has its marker before it is read: changes that the marker covers are
dropped, all others wait until the block is stored.

All this holds while the whole slave is loaded. While a part of a NORMAL slave is loaded, nothing waits. A change is
applied if its block has caught up, and left out otherwise. When the end of a window covers the marker of a stored
block, the changes between the marker and that end are read again, those of the block are applied, and the marker is
removed in the transaction of the window: the block has caught up (`TableBlocks.catching_up`). So a block is either as
of its marker or as of the checkpoint. ITEMS keeps all changes since the load began. After a TRUNCATE or a change of the
table's definition, blocks that have not caught up are read again, so that such a change is never between a marker and
the end of catching up.

For an initial update by files, a block is "exported", with its marker, long before the slave has it. The file has the
changes that the marker covers; all others wait until the file is imported. A block that is being imported is "begun"
and keeps its marker: if its loader dies, it is "exported" again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from sluice.errors import Terminal
from sluice.model.names import TableName
from sluice.model.position import Position

Key = tuple[str, ...]
"""The canonical text of each key column, in the key's order."""


class BlockState(StrEnum):
    """The state of a block."""

    PLANNED = "planned"
    """Nobody reads it yet."""
    BEGUN = "begun"
    """A loader will read it, is reading it, or died."""
    EXPORTED = "exported"
    """Its rows are in a file that is not imported yet; its marker is known."""
    STORED = "stored"
    """Its rows are on the slave, committed together with its marker."""


MOVES: dict[BlockState, frozenset[BlockState]] = {
    BlockState.PLANNED: frozenset({BlockState.BEGUN}),
    BlockState.BEGUN: frozenset({BlockState.STORED, BlockState.PLANNED, BlockState.EXPORTED}),
    BlockState.EXPORTED: frozenset({BlockState.BEGUN}),
    BlockState.STORED: frozenset(),
}
"""A loader marks a block as begun, then as stored or exported, or resets it after a failure."""


class Decision(StrEnum):
    """What the apply does with a change."""

    DROP = "drop"
    WAIT = "wait"
    """Wait until the block is stored or planned again, then decide again."""
    APPLY = "apply"


def blocks_damaged(table: TableName, reason: str) -> Terminal:
    """The blocks of `table` leave a gap or overlap."""
    return Terminal(
        f"The restart table is damaged: blocks of {table} {reason}. Cancel the initial update, then start a new one.",
        code="blocks-damaged",
    )


@dataclass(frozen=True)
class Block:
    """A range of keys of one table: from `lo` (inclusive) to `hi` (exclusive); None: without a bound."""

    table: TableName
    number: int
    lo: Key | None = None
    hi: Key | None = None
    state: BlockState = BlockState.PLANNED
    marker: Position | None = None
    """Set when the block is stored or exported, while it is imported, and from the beginning if all blocks are read in
    one snapshot. None for a stored block: it has caught up, and every change is applied."""
    rows: int = 0
    bytes: int = 0
    loader: str | None = None
    begun_at: datetime | None = None
    stored_at: datetime | None = None
    file: str | None = None
    """The file with its rows, if it was exported."""
    sha256: str | None = None
    """The SHA-256 of that file."""
    snapshot: str | None = None
    """The exported snapshot of the master in which it is read; None: its own snapshot."""
    tries: int = 0
    """How often it gave way to applications; known when it is claimed."""

    @property
    def left_alone(self) -> bool:
        """Whether the running update does not load it: it was stored before, between two parts that are loaded."""
        return self.state is BlockState.STORED and self.begun_at is None

    @property
    def caught_up(self) -> bool:
        """Whether it has caught up: it is as of the slave's checkpoint."""
        return self.state is BlockState.STORED and self.marker is None

    def settled(self, applied: Position) -> bool:
        """Whether every change after `applied` is applied to this block."""
        return self.state is BlockState.STORED and (self.marker is None or applied.covers_all_of(self.marker))


def decide(block: Block, xid: int, repl_key: int) -> Decision:
    """The decision on the change `repl_key` of transaction `xid`, of a key inside `block`.

    BLOCKS must have been read after the end of the change's window was taken. A change of a key is two decisions, one
    for the old key and one for the new.
    """
    if block.marker is None:
        if block.state is BlockState.PLANNED:
            return Decision.DROP
        if block.state is not BlockState.BEGUN:
            raise blocks_damaged(block.table, f"hold number {block.number}, which is {block.state} without a marker")
        return Decision.WAIT
    if block.marker.covers(xid, repl_key):
        return Decision.DROP
    return Decision.APPLY if block.state is BlockState.STORED else Decision.WAIT


@dataclass(frozen=True)
class TableBlocks:
    """All blocks of one table in the order of their keys, without gaps."""

    table: TableName
    blocks: tuple[Block, ...]

    @classmethod
    def joined(cls, table: TableName, blocks: Iterable[Block]) -> "TableBlocks":
        """Orders blocks by matching the end of each with the start of the next. No keys are compared, since only the
        master knows their order. Raises `blocks-damaged`."""
        by_start: dict[Key | None, Block] = {}
        count = 0
        for block in blocks:
            by_start[block.lo] = block
            count += 1
        if len(by_start) != count:
            raise blocks_damaged(table, "overlap")
        chain: list[Block] = []
        start: Key | None = None
        while (block_at := by_start.pop(start, None)) is not None:
            chain.append(block_at)
            start = block_at.hi
            if start is None:
                break
        if by_start or not chain or chain[-1].hi is not None:
            raise blocks_damaged(table, "leave a gap")
        return cls(table, tuple(chain))

    @property
    def bounds(self) -> list[Key]:
        """The starts of all blocks but the first, with which `locate` compares keys."""
        return [block.lo for block in self.blocks[1:] if block.lo is not None]

    def settled(self, applied: Position) -> bool:
        """Whether every change after `applied` is applied, regardless of its key."""
        return all(block.settled(applied) for block in self.blocks)

    @property
    def caught_up(self) -> bool:
        """Whether the table is as of the slave's checkpoint."""
        return all(block.caught_up for block in self.blocks)

    @property
    def outline(self) -> "TableBlocks":
        """Fewer blocks: neighbors are joined if both have caught up, or neither has."""
        merged: list[Block] = []
        for block in self.blocks:
            if merged and merged[-1].caught_up == block.caught_up:
                merged[-1] = replace(merged[-1], hi=block.hi)
            else:
                merged.append(block)
        return TableBlocks(self.table, tuple(merged))

    def catching_up(self, end: Position) -> list[Block]:
        """The stored blocks that catch up in the window that ends at `end`, because it covers their markers.

        If blocks are read long before they are stored, in files or in one snapshot, they catch up together: the changes
        after their markers are read once for all of them.
        """
        behind = [block for block in self.blocks if not block.caught_up]
        together = any(block.file is not None or block.snapshot is not None for block in behind)
        if together and any(block.state is not BlockState.STORED for block in behind):
            return []
        return [block for block in behind if block.settled(end)]

    def merged(self, applied: Position) -> "TableBlocks":
        """Fewer blocks, for changes after `applied`: neighbors with the same decision for every change are joined.

        Planned blocks drop changes, blocks that are being read wait, and blocks that have caught up apply.
        """
        merged: list[Block] = []
        for block in self.blocks:
            last = merged[-1] if merged else None
            alike = (
                last is not None
                and last.state is block.state
                and (
                    (last.marker is None and block.marker is None) or (last.settled(applied) and block.settled(applied))
                )
            )
            if last is not None and alike:
                merged[-1] = replace(last, hi=block.hi, rows=last.rows + block.rows, bytes=last.bytes + block.bytes)
            else:
                merged.append(block)
        return TableBlocks(self.table, tuple(merged))


@dataclass(frozen=True)
class BlockMap:
    """The blocks of all tables of one slave, from one query of BLOCKS."""

    tables: Mapping[TableName, TableBlocks] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> "BlockMap":
        """Raises `blocks-damaged`."""
        by_table: dict[TableName, list[Block]] = {}
        for block in blocks:
            by_table.setdefault(block.table, []).append(block)
        return cls({table: TableBlocks.joined(table, of_table) for table, of_table in by_table.items()})

    @property
    def markers(self) -> list[Position]:
        """Of all blocks that are read."""
        every = (block.marker for blocks in self.tables.values() for block in blocks.blocks)
        return [marker for marker in every if marker is not None]

    def undecided(self, applied: Position) -> dict[TableName, TableBlocks]:
        """The tables whose changes after `applied` need a decision, with their blocks joined. Changes of all other
        tables are applied."""
        return {table: blocks.merged(applied) for table, blocks in self.tables.items() if not blocks.settled(applied)}

    def complete(self, applied: Position) -> bool:
        """Whether all blocks are stored and `applied` covers every marker: the slave is consistent."""
        return all(blocks.settled(applied) for blocks in self.tables.values())


def decisions(blocks: Sequence[Block], xid: int, repl_key: int) -> frozenset[Decision]:
    """All decisions that are possible for a change whose block is not known, such as a TRUNCATE."""
    return frozenset(decide(block, xid, repl_key) for block in blocks)


def by_oldest_marker(blocks: Iterable[Block]) -> list[tuple[Position, list[Block]]]:
    """Blocks with markers, in groups with a marker that all markers of the group cover."""
    groups: list[tuple[Position, list[Block]]] = []
    for block in blocks:
        assert block.marker is not None
        for index, (oldest, others) in enumerate(groups):
            if block.marker.covers_all_of(oldest):
                others.append(block)
            elif oldest.covers_all_of(block.marker):
                groups[index] = block.marker, [*others, block]
            else:
                continue
            break
        else:
            groups.append((block.marker, [block]))
    return groups
