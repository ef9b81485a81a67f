"""The checkpoint of a slave: what it has durably applied."""

from dataclasses import dataclass, replace
from datetime import datetime

from sluice.errors import Terminal, Transient
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import ALL_READY, TableStates
from sluice.model.window import Window


class Fenced(Terminal):
    """Another apply has claimed the slave; this one must end without writing again."""

    def __init__(self, slave: str, epoch: int):
        super().__init__(
            f"Another apply took over slave {slave} (this one had epoch {epoch}). Nothing to do: this process ends."
        )
        self.slave = slave
        self.epoch = epoch


class IsMaster(Fenced):
    """A failover made the slave a master: nothing of the former one may be applied."""

    def __init__(self, slave: str, epoch: int, message: str):
        super().__init__(slave, epoch)
        self.args = (f"There is nothing to apply: slave {slave} is a master itself ({message}).",)


class CheckpointMoved(Transient):
    """The checkpoint changed under a running apply: an initial update began. It must be read again."""


@dataclass(frozen=True)
class Checkpoint:
    """One row of `<prefix>CHECKPOINT`. Written in the transaction that carries the data."""

    slave: str
    state: SlaveState
    message: str = ""
    position: Position | None = None
    """Every transaction it covers is applied, and nothing else unless `target` is set."""
    epoch: int = 0
    target: Position | None = None
    """Set while a window is applied in slices: the end of that window."""
    slice_key: int | None = None
    """With `target`: changes of the window up to this REPL_KEY are applied."""
    safemode_exit: Position | None = None
    changes: int = 0
    """Changes applied since the slave exists."""
    updated_at: datetime | None = None
    """The slave's clock."""
    closed: str = ""
    """An admin's closure of the gate, as `sluice.coordination.gate` writes it; empty: none."""
    tables: TableStates = ALL_READY
    """Which tables are not ready: their changes are left out, or decided by BLOCKS."""

    @property
    def catching_up(self) -> bool:
        """True while the slave is between two states of the master: a large window in slices."""
        return self.target is not None

    @property
    def loading(self) -> bool:
        """True while BLOCKS decides of changes: of all tables in TRANSITION, in NORMAL of those that are loading."""
        return self.state is SlaveState.TRANSITION or (self.state is SlaveState.NORMAL and bool(self.tables.loading))

    def same_place(self, other: "Checkpoint") -> bool:
        """True when applying can go on from here as if it were `other`."""
        return (self.epoch, self.state, self.position, self.target, self.slice_key, self.tables) == (
            other.epoch,
            other.state,
            other.position,
            other.target,
            other.slice_key,
            other.tables,
        )

    def advanced(self, position: Position, changes: int) -> "Checkpoint":
        """The checkpoint when a whole window up to `position` is applied."""
        return replace(self, position=position, target=None, slice_key=None, changes=self.changes + changes, message="")

    def after(self, window: Window, changes: int) -> "Checkpoint":
        """The checkpoint when `window` is applied, or the slice of it that ends at its `up_to`."""
        if window.up_to is None:
            return self.advanced(window.target, changes)
        return replace(self, target=window.target, slice_key=window.up_to, changes=self.changes + changes, message="")
