"""The checkpoint of a slave: what it has durably applied."""

from dataclasses import dataclass, replace
from datetime import datetime

from sluice.counted import counted
from sluice.errors import Terminal, Transient
from sluice.model.position import Position, Window
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import ALL_READY, TableStates


class Fenced(Terminal):
    """Another apply has claimed the slave; this one ends without writing."""

    def __init__(self, slave: str, epoch: int):
        super().__init__(
            f"Another apply took over slave {slave} (this one had epoch {epoch}). Nothing to do: this process ends."
        )


class IsMaster(Fenced):
    """A failover made the slave a master: no changes of the former master may be applied."""

    def __init__(self, slave: str, epoch: int, message: str):
        super().__init__(slave, epoch)
        self.args = (f"There is nothing to apply: slave {slave} is a master itself ({message}).",)


class CheckpointMoved(Transient):
    """The checkpoint changed while the apply was running, because an initial update began. Read it again."""


@dataclass(frozen=True)
class Checkpoint:
    """One row of `<prefix>CHECKPOINT`. Written in the transaction that carries the data."""

    slave: str
    state: SlaveState
    message: str = ""
    position: Position | None = None
    """Every transaction that it covers is applied, and no other unless `target` is set."""
    epoch: int = 0
    target: Position | None = None
    """The end of a window that is applied in slices."""
    slice_key: int | None = None
    """With `target`: changes of the window up to this REPL_KEY are applied."""
    safemode_exit: Position | None = None
    changes: int = 0
    """The number of changes applied since the slave was created."""
    updated_at: datetime | None = None
    """By the slave's clock."""
    closed: str = ""
    """An admin's closure of the gate, as `sluice.coordination.gate` writes it; empty without one."""
    tables: TableStates = ALL_READY
    """The tables that are not ready: their changes are left out, or BLOCKS decides on them."""

    @property
    def catching_up(self) -> bool:
        """Whether the slave is between two states of the master, within a window that is applied in slices."""
        return self.target is not None

    @property
    def loading(self) -> bool:
        """Whether BLOCKS decides on changes: in TRANSITION of all tables, in NORMAL of those that are loading."""
        return self.state is SlaveState.TRANSITION or (self.state is SlaveState.NORMAL and bool(self.tables.loading))

    def same_place(self, other: "Checkpoint") -> bool:
        """Whether the apply can continue from here as from `other`."""
        return (self.epoch, self.state, self.position, self.target, self.slice_key, self.tables) == (
            other.epoch,
            other.state,
            other.position,
            other.target,
            other.slice_key,
            other.tables,
        )

    def advanced(self, position: Position, changes: int) -> "Checkpoint":
        """The checkpoint after a whole window up to `position`."""
        return replace(self, position=position, target=None, slice_key=None, changes=self.changes + changes, message="")

    def rested(self, position: Position) -> "Checkpoint":
        """The checkpoint after an empty window up to `position`.

        If it is the rest of a window that is applied in part, it counts as one with changes: a restart must not go back
        to the beginning of that window.
        """
        if self.position is None or self.catching_up:
            return self.advanced(position, 0)
        return self.advanced(position.resting(self.position), 0)

    def after(self, window: Window, changes: int) -> "Checkpoint":
        """The checkpoint after `window`, or after the slice of it that ends at its `up_to`."""
        if window.up_to is None:
            return self.advanced(window.target, changes)
        return replace(self, target=window.target, slice_key=window.up_to, changes=self.changes + changes, message="")


# Where an apply continues whose checkpoint is kept in Redis (`checkpoint: redis`). No I/O.
#
# The slave's own row has the epoch, the state and the number of changes, written in the transactions of the data,
# and an older position, the *fallback position*. It advances with rare events: a start, a change of the state, a
# slice, a TRUNCATE or a change of a definition, a rejected change or one applied on request, and every
# `FALLBACK_INTERVALS`. Redis has the newer position. If that is wrong or missing, the apply continues from the
# fallback position: the changes in between come again, in safe mode, and ITEMS is purged only up to the fallback
# position.

FALLBACK_INTERVALS = 20
"""The highest number of checkpoint intervals between two fallback positions: ten minutes, if an interval is 30 s."""


@dataclass(frozen=True)
class Stored:
    """The position of a slave in Redis, with the values that identify it."""

    epoch: int
    """The epoch of the apply that wrote it."""
    fallback: Position
    """The position in the slave's row when it was written."""
    position: Position
    changes: int
    """The number of applied changes when it was written, as in the slave's row."""


def resume(row: Checkpoint, stored: Stored | None) -> tuple[Checkpoint, str]:
    """The checkpoint from which to continue: the slave's row, with the position of `stored` if that can be trusted.

    The text is the reason why it cannot be trusted; empty if it can, or if there is nothing to continue from.
    """
    if row.position is None:
        return row, ""
    doubt = _doubt(row, stored)
    if stored is None or doubt:
        return row, doubt
    return replace(row, position=stored.position), ""


def _doubt(row: Checkpoint, stored: Stored | None) -> str:
    if stored is None:
        return "Redis holds no checkpoint of this slave: there never was one, or Redis was emptied"
    if stored.epoch > row.epoch or (stored.epoch == row.epoch and stored.changes > row.changes):
        return (
            f"the slave is older than its checkpoint in Redis (epoch {row.epoch} and "
            f"{counted(row.changes, 'change')} against epoch {stored.epoch} and {stored.changes}): "
            "it was restored from a backup or failed over"
        )
    if stored.epoch < row.epoch:
        return f"the checkpoint in Redis is of epoch {stored.epoch}, the slave's is {row.epoch}: an old one came back"
    # By their texts, clock included: a position taken again may equal an old one on a quiet master.
    if row.position is None or row.catching_up or stored.fallback.text() != row.position.text():
        return "the slave's own row is newer than the checkpoint in Redis"
    return ""
