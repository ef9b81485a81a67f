"""Blocks: the key ranges in which tables are loaded, and what they mean for changes.

A block is read from the master in one short transaction, whose position is its marker: every
change the marker covers is in the block, no other is. The apply runs while blocks load, and
decides change by change (`decide`).

Why no change is lost or applied twice. For a window `(P1, P2]` the apply looks at the blocks
after P2 was taken. The loader commits "begun" before it takes its snapshot on the master. So a
block seen as planned is read after this look, its marker covers all of P2, and the change will
be in the block: dropping it is right. A block seen as begun may have been read before or after
the change: only waiting is right. A stored block says by its marker. Rows, marker and "stored"
are committed together, so there is no fourth case.

A loader that died leaves "begun"; its block goes back to "planned". That is safe at any moment,
even while the loader lives: storing demands that the block is still begun by this very loader.

Where all blocks are read in one snapshot, each has its marker before it is read: what that marker covers
is dropped, any other change waits until the block is stored.

So it is while the whole slave is loaded. Where a part of a slave that is NORMAL is loaded nobody waits: all else goes
on, transaction by transaction. A change is applied in a block that has caught up, and left out in any other one. When
the end of a window covers the marker of a stored block, the changes between the marker and that end are read once more,
those of the block are applied, and the marker is removed: it has caught up, in the one transaction that also carries
the window (`TableBlocks.catching_up`). So a block is either as of its marker or as of the checkpoint, and says which.
ITEMS keeps all changes since the load began. A TRUNCATE or a change of the table's definition lets the blocks that have
not caught up be read again, so that none of these lies between a marker and its catching up.

An initial update that travels as files reads a block long before the slave has it: it is "exported",
with its marker. A change the marker covers is in the file; any other waits until the file is
imported. A block that is being imported is "begun" and keeps its marker: should its loader die, it
goes back to "exported".
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
    """How far a block is."""

    PLANNED = "planned"
    """Its reading has not begun."""
    BEGUN = "begun"
    """A loader said that it will read, or is reading, or died."""
    EXPORTED = "exported"
    """Its rows are in a file, with its marker; the file is on its way to the slave."""
    STORED = "stored"
    """Its rows are on the slave, committed with its marker."""


MOVES: dict[BlockState, frozenset[BlockState]] = {
    BlockState.PLANNED: frozenset({BlockState.BEGUN}),
    BlockState.BEGUN: frozenset({BlockState.STORED, BlockState.PLANNED, BlockState.EXPORTED}),
    BlockState.EXPORTED: frozenset({BlockState.BEGUN}),
    BlockState.STORED: frozenset(),
}
"""A loader moves to begun, and from there to stored or exported, or back when it failed or died."""


class Decision(StrEnum):
    """What becomes of a change."""

    DROP = "drop"
    WAIT = "wait"
    """The block is being read: wait until it is stored or planned again, then decide again."""
    APPLY = "apply"


class BlocksDamaged(Terminal):
    """The blocks of `table` do not join to one range of keys."""

    def __init__(self, table: TableName, reason: str):
        super().__init__(
            f"The restart table is damaged: blocks of {table} {reason}. "
            "Cancel the initial update, then start a new one."
        )
        self.table = table


@dataclass(frozen=True)
class Block:
    """A range of keys of one table: `lo` inclusive, `hi` exclusive, None where it is open."""

    table: TableName
    number: int
    lo: Key | None = None
    hi: Key | None = None
    state: BlockState = BlockState.PLANNED
    marker: Position | None = None
    """Set when stored or exported, and while it is imported; from the beginning where all blocks are read in one
    snapshot. Of a stored block None: the stream has passed it, every change is applied."""
    rows: int = 0
    bytes: int = 0
    loader: str | None = None
    begun_at: datetime | None = None
    stored_at: datetime | None = None
    file: str | None = None
    """The file that holds its rows, when it was exported."""
    sha256: str | None = None
    """Of that file."""
    snapshot: str | None = None
    """The exported snapshot of the master in which it is read; None: in one of its own."""
    tries: int = 0
    """How often its reading gave way to the application; known when it is claimed."""

    @property
    def left_alone(self) -> bool:
        """Whether the update under way is not to load it: it was stored before, and only tells what lies between."""
        return self.state is BlockState.STORED and self.begun_at is None

    @property
    def caught_up(self) -> bool:
        """Whether it is stored and the stream has passed its marker: it is what the slave's checkpoint says."""
        return self.state is BlockState.STORED and self.marker is None

    def settled(self, applied: Position) -> bool:
        """True when every change after `applied` is to be applied here."""
        return self.state is BlockState.STORED and (self.marker is None or applied.covers_all_of(self.marker))


def decide(block: Block, xid: int, repl_key: int) -> Decision:
    """What becomes of the change `repl_key` by transaction `xid` to a key inside `block`.

    The blocks must have been read after the end of the change's window was taken. A change of
    key is two decisions, one for the old key and one for the new.
    """
    if block.marker is None:
        if block.state is BlockState.PLANNED:
            return Decision.DROP
        if block.state is not BlockState.BEGUN:
            raise BlocksDamaged(block.table, f"hold number {block.number}, which is {block.state} without a marker")
        return Decision.WAIT
    if block.marker.covers(xid, repl_key):
        return Decision.DROP
    return Decision.APPLY if block.state is BlockState.STORED else Decision.WAIT


@dataclass(frozen=True)
class TableBlocks:
    """All blocks of one table in the order of their keys; they join without gap from end to end."""

    table: TableName
    blocks: tuple[Block, ...]

    @classmethod
    def joined(cls, table: TableName, blocks: Iterable[Block]) -> "TableBlocks":
        """Orders blocks by following each one's end to the next one's start.

        No keys are compared: only the master knows how they order. Raises `BlocksDamaged`.
        """
        by_start: dict[Key | None, Block] = {}
        count = 0
        for block in blocks:
            by_start[block.lo] = block
            count += 1
        if len(by_start) != count:
            raise BlocksDamaged(table, "overlap")
        chain: list[Block] = []
        start: Key | None = None
        while (block_at := by_start.pop(start, None)) is not None:
            chain.append(block_at)
            start = block_at.hi
            if start is None:
                break
        if by_start or not chain or chain[-1].hi is not None:
            raise BlocksDamaged(table, "leave a gap")
        return cls(table, tuple(chain))

    @property
    def bounds(self) -> list[Key]:
        """The starts of all blocks but the first: what `locate` compares keys with."""
        return [block.lo for block in self.blocks[1:] if block.lo is not None]

    def settled(self, applied: Position) -> bool:
        """True when every change after `applied` is to be applied, wherever its key lies."""
        return all(block.settled(applied) for block in self.blocks)

    @property
    def caught_up(self) -> bool:
        """Whether the table is what the slave's checkpoint says."""
        return all(block.caught_up for block in self.blocks)

    @property
    def outline(self) -> "TableBlocks":
        """Fewer blocks: neighbours become one where both have caught up, and where neither has."""
        merged: list[Block] = []
        for block in self.blocks:
            if merged and merged[-1].caught_up == block.caught_up:
                merged[-1] = replace(merged[-1], hi=block.hi)
            else:
                merged.append(block)
        return TableBlocks(self.table, tuple(merged))

    def catching_up(self, end: Position) -> list[Block]:
        """The stored blocks that catch up with the window that ends at `end`, as it covers their markers.

        Where blocks were read long before they are stored, in files or in one snapshot, they wait for one another: what
        follows their markers is read once for all of them.
        """
        behind = [block for block in self.blocks if not block.caught_up]
        together = any(block.file is not None or block.snapshot is not None for block in behind)
        if together and any(block.state is not BlockState.STORED for block in behind):
            return []
        return [block for block in behind if block.settled(end)]

    def merged(self, applied: Position) -> "TableBlocks":
        """Fewer blocks, for changes after `applied`: neighbours that decide alike become one.

        Planned ones drop, those being read wait, settled ones apply, whatever the change.
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
    """The blocks of all tables of one slave, as one look at BLOCKS found them."""

    tables: Mapping[TableName, TableBlocks] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> "BlockMap":
        """Raises `BlocksDamaged`."""
        by_table: dict[TableName, list[Block]] = {}
        for block in blocks:
            by_table.setdefault(block.table, []).append(block)
        return cls({table: TableBlocks.joined(table, found) for table, found in by_table.items()})

    def undecided(self, applied: Position) -> dict[TableName, TableBlocks]:
        """The tables whose changes after `applied` need a decision, their blocks merged.

        Changes of every other table are applied.
        """
        return {table: blocks.merged(applied) for table, blocks in self.tables.items() if not blocks.settled(applied)}

    def complete(self, applied: Position) -> bool:
        """True when all blocks are stored and `applied` has passed every marker: the slave is consistent."""
        return all(blocks.settled(applied) for blocks in self.tables.values())


def decisions(blocks: Sequence[Block], xid: int, repl_key: int) -> frozenset[Decision]:
    """Every decision a change of unknown place would get, such as a TRUNCATE."""
    return frozenset(decide(block, xid, repl_key) for block in blocks)


def by_oldest_marker(blocks: Iterable[Block]) -> list[tuple[Position, list[Block]]]:
    """Blocks with markers, with a marker that those of all of them cover; in groups where there is no such one."""
    groups: list[tuple[Position, list[Block]]] = []
    for block in blocks:
        assert block.marker is not None
        for place, (oldest, others) in enumerate(groups):
            if block.marker.covers_all_of(oldest):
                others.append(block)
            elif oldest.covers_all_of(block.marker):
                groups[place] = block.marker, [*others, block]
            else:
                continue
            break
        else:
            groups.append((block.marker, [block]))
    return groups
