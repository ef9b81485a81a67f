"""What a vendor does for Sluice's own tables on a slave, whose stores are in `sluice.control`, and for who loads it.

Unless a method says otherwise the caller commits, and every one raises errors of `sluice.database.errors`.
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
    """Another load job holds the slave; `holder` describes its session."""

    def __init__(self, slave: str, holder: str):
        super().__init__(
            f"Slave {slave} is being loaded by another job ({holder}). This one ends; the other goes on. "
            "Should that job be dead, its session ends by itself within minutes."
        )
        self.slave = slave
        self.holder = holder


@dataclass(frozen=True)
class Owner:
    """The state of a slave and the initial update that owns it."""

    state: SlaveState
    update_id: str | None
    message: str
    current_as_of: datetime | None
    """By the master's clock: what the slave has applied."""


@dataclass(frozen=True)
class Claim:
    """A planned block, locked until the transaction ends, and what the table's last block cost."""

    block: Block
    last_rows: int | None
    last_bytes: int | None
    last_seconds: float | None


@dataclass(frozen=True)
class TableProgress:
    """How far the load of one table is, from BLOCKS alone."""

    table: TableName
    planned: int
    begun: int
    stored: int
    rows: int
    bytes: int
    rows_per_second: float
    begun_at: datetime | None
    stored_at: datetime | None
    exported: int = 0


class OwnTables(Protocol):
    """What a vendor does for the stores of `sluice.control`, for one slave over one session."""

    @property
    def placeholders(self) -> Mapping[str, str]:
        """What statements are filled in with: `prefix`, `schema` (quoted), `clock`: what time it is on the server, in
        the middle of a transaction, and `among`: the condition that the parameter `key` is one of the texts in the
        column `keys` of REJECTS."""
        ...

    def has(self, table: str) -> bool:
        """Whether there is such a table, by its name without the prefix. One that is another account's is an error."""
        ...

    def expect_here(self) -> None:
        """Called where nothing is found. Raises where it is kept elsewhere."""
        ...

    def make(self) -> None:
        """Creates what is absent, and upgrades what an earlier version made."""
        ...

    def secure(self) -> None:
        """Raises where somebody else could make or own one of them."""
        ...

    def complete_rejects(self) -> None:
        """REJECTS of an earlier version gets the columns it lacks."""
        ...

    def await_durable(self) -> None:
        """Returns when no crash of the slave can undo what was read from it."""
        ...

    def texts(self, values: Sequence[str]) -> object:
        """Texts as the parameter of a column that keeps several."""
        ...

    def texts_of(self, value: object) -> tuple[str, ...]:
        """The texts that such a column has."""
        ...


class LoadLocks(Protocol):
    """The locks that keep two load jobs apart."""

    def lock(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """The right to load the slave, as long as this session lives. Raises `LoadRuns`."""
        ...

    def hold(self, connection: Session, job: str) -> None:
        """The job lives, and its loaders may claim blocks, as long as this session does or until `let_go`."""
        ...

    def let_go(self, connection: Session, job: str) -> None:
        """The job's loaders may claim no more."""
        ...

    def claiming(self, connection: Session, prefix: Prefix, slave: str, job: str) -> bool:
        """In the transaction of a claim, first: False when the loader's job is over."""
        ...

    def claim_in_turn(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """In the transaction of a claim: others wait until it ends, so that limits on what is read hold."""
        ...

    def no_claims(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """In a transaction: no claim is under way from here to its end."""
        ...

    def end_sessions(self, connection: Session, application: str) -> int:
        """Ends sessions of this account that a dead job's loaders left behind, by their application's name."""
        ...
