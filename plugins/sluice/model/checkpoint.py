"""The checkpoint of a slave: what it has durably applied."""

from dataclasses import dataclass, replace
from datetime import datetime

from sluice.errors import Terminal, Transient
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import ALL_READY, TableStates
from sluice.model.window import Window


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
