"""What a vendor does for Sluice's own tables on a slave (the stores of `sluice.control`), and the locks of a load.

The caller commits, unless a method says otherwise. All methods raise errors of `sluice.database.errors`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sluice.database.session import Session
from sluice.errors import Transient
from sluice.model.blocks import Block
from sluice.model.names import Prefix, TableName
from sluice.model.slave_state import SlaveState


class LoadRuns(Transient):
    """Another load job loads the slave; `holder` describes its session."""

    def __init__(self, slave: str, holder: str):
        super().__init__(
            f"Slave {slave} is being loaded by another job ({holder}). This one ends; the other continues. "
            "Should that job be dead, its session ends by itself within minutes."
        )


@dataclass(frozen=True)
class Owner:
    """The state of a slave and the initial update that owns it."""

    state: SlaveState
    update_id: str | None
    message: str
    current_as_of: datetime | None
    """The master's time of the slave's position."""


@dataclass(frozen=True)
class Claim:
    """A planned block, locked until the transaction ends, and the size and time of the table's last block."""

    block: Block
    last_rows: int | None
    last_bytes: int | None
    last_seconds: float | None


@dataclass(frozen=True)
class TableProgress:
    """The progress of one table's load, from BLOCKS."""

    table: TableName
    planned: int
    begun: int
    stored: int
    rows: int
    """Rows stored."""
    bytes: int
    rows_per_second: float
    exported: int = 0
    """Blocks in files that the slave does not have yet."""


class OwnTables(Protocol):
    """What a vendor does for the stores of `sluice.control`, for one slave over one session."""

    @property
    def placeholders(self) -> Mapping[str, str]:
        """Values for placeholders of statements: `prefix`; `schema` (quoted); `clock`: the server's time, also within a
        transaction; `among`: the condition that the parameter `key` is one of the texts in the column `keys` of
        REJECTS."""
        ...

    def has(self, table: str) -> bool:
        """Whether the table of this name, without the prefix, exists. Raises if it is another account's."""
        ...

    def expect_not_elsewhere(self) -> None:
        """Called if no table is found. Raises if they are in another schema."""
        ...

    def make(self) -> None:
        """Creates absent tables, and upgrades those of an earlier version."""
        ...

    def secure(self) -> None:
        """Raises where another account could create or own one of the tables."""
        ...

    def complete_rejects(self) -> None:
        """Adds the columns that REJECTS of an earlier version lacks."""
        ...

    def await_durable(self) -> None:
        """Returns when no crash of the slave can undo what was read from it."""
        ...

    def texts(self, values: Sequence[str]) -> object:
        """Converts texts to the parameter for a column of several texts."""
        ...

    def texts_of(self, value: object) -> tuple[str, ...]:
        """Converts the value of such a column to texts."""
        ...


class LoadLocks(Protocol):
    """The locks of load jobs and their loaders."""

    def lock(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """Takes the lock of the slave's load, for as long as this session lives. Raises `LoadRuns`."""
        ...

    def hold(self, connection: Session, job: str) -> None:
        """Lets the job's loaders claim blocks, for as long as this session lives or until `let_go`."""
        ...

    def let_go(self, connection: Session, job: str) -> None:
        """Ends that: the job's loaders may claim no more blocks."""
        ...

    def claiming(self, connection: Session, prefix: Prefix, slave: str, job: str) -> bool:
        """First in the transaction of a claim: whether the loader's job still lives."""
        ...

    def claim_in_turn(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """Makes other claims wait until the transaction of this claim ends, so that limits on reading hold."""
        ...

    def no_claims(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """Waits for running claims, and allows none until the transaction ends."""
        ...

    def end_sessions(self, connection: Session, application: str) -> int:
        """Ends sessions of a killed job's loaders, by their application's name. Returns how many."""
        ...
