"""What a failover needs of its two databases: definitions, sequences, a guard, and the row that a slave keeps of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sluice.database.session import Session
from sluice.model.failover import Action, Made, Phase, Record, SequenceValue, Sheet
from sluice.model.lack import Lack
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.schema_definitions import Definition, Difference


@dataclass(frozen=True)
class Guarded:
    """A table of the master, or a partition of one."""

    table: str
    """Quoted."""
    function: str
    """The function that refuses writes, where there is one."""
    refuses: bool


@dataclass(frozen=True)
class Claim:
    """Which failover has a master."""

    id: str
    slave: str
    phase: str
    """`guarded`, `switch` or `switched`."""


class FailoverTable(Protocol):
    """The row of `<prefix>FAILOVER` of one slave. The caller commits."""

    def exists(self) -> bool:
        """Whether the slave keeps anything."""
        ...

    def ensure(self) -> None:
        """Makes the table where it is absent."""
        ...

    def keep(self, sheet: Sheet) -> None:
        """Keeps the master's definitions."""
        ...

    def sheet(self) -> Sheet | None:
        """What was kept of the master; None where nothing was."""
        ...

    def read(self, *, lock: bool = False) -> Record | None:
        """The failover under way, or the last one; None where there never was one. `lock` holds the row till commit."""
        ...

    def begin(self, failover_id: str, action: Action, reverse: bool, by: str) -> None: ...

    def move(
        self, phase: Phase, *, last: str | None = None, start: str | None = None, verified: str | None = None
    ) -> None:
        """The failover has come to `phase`. Call it with the row's lock. `last`, `start`: texts of positions."""
        ...

    def note_made(self, made: Made | None) -> None:
        """In the transaction that makes it; None: the last one was taken back."""
        ...


class MasterGuard(Protocol):
    """Makes a master refuse writes to its replicated tables. On a session in autocommit."""

    def claim(self, failover_id: str, slave: str) -> Claim:
        """The claim in force afterwards: this one, or that of the failover that was first."""
        ...

    def claimed(self) -> Claim | None:
        """The failover that has the master."""
        ...

    def move_claim(self, failover_id: str, phases: Sequence[str], phase: str | None) -> bool:
        """From one of `phases` to `phase`, None: it goes. False where it was not so."""
        ...

    def tables(self) -> list[Guarded]:
        """All that must refuse writes, and whether it does."""
        ...

    def make(self, message: str) -> None:
        """Each table refuses writes with `message`. Transactions that write are waited for, and no other one waits for
        more than a moment. Raises `Terminal` where one does not end."""
        ...

    def release(self) -> None:
        """Every table takes writes again when it returns, and nothing of the guard is left. Raises `Terminal` where
        triggers that refuse nothing any more could not be removed."""
        ...


class FailoverSupport(Protocol):
    """Over a session on the slave, or on the master where that is said; in autocommit."""

    PAST_TRIGGERS: str
    """Which sessions write where triggers do not fire: a clause, `as … does`."""

    def FailoverStore(  # noqa: N802
        self, connection: Session, prefix: Prefix, schema: str, slave: str
    ) -> FailoverTable: ...

    def Guard(self, connection: Session, prefix: Prefix, schema: str) -> MasterGuard:  # noqa: N802
        """Of a master, or of a slave that was one before."""
        ...

    def definitions(
        self, connection: Session, prefix: Prefix, tables: Sequence[TableName], *, all_roles: bool = False
    ) -> tuple[Definition, ...]:
        """What `tables` and their surroundings are defined to do beyond holding rows, on either side."""
        ...

    def sequence_values(
        self, connection: Session, prefix: Prefix, tables: Sequence[TableName]
    ) -> tuple[SequenceValue, ...]:
        """Where the sequences behind columns of `tables` are, and those that applications call; on either side."""
        ...

    def clock(self, connection: Session) -> str:
        """The server's clock, ISO 8601, UTC."""
        ...

    def sheet(self, connection: Session, prefix: Prefix, place: str, tables: Sequence[TableName]) -> Sheet:
        """All that a failover needs of a master, which messages call `place`."""
        ...

    def sessions_of(self, connection: Session, application: str) -> int:
        """How many other sessions of this account call themselves so in the database."""
        ...

    def rights_lacking(self, connection: Session, wanted: Sequence[Difference]) -> list[Lack]:
        """What keeps the account from making some of `wanted`."""
        ...

    def make(self, connection: Session, store: FailoverTable, difference: Difference, *, trusted: bool = False) -> str:
        """Makes the slave as the master is and keeps what undoes it, in one transaction; else why that was refused.

        `trusted`: whatever expression the master brings may be run. Raises errors that another try may mend, of a lock
        above all.
        """
        ...

    def take_back(self, connection: Session, store: FailoverTable, made: Made) -> None:
        """Undoes the last thing made, in one transaction."""
        ...

    def set_sequence(self, connection: Session, master: SequenceValue, gap: int) -> int | None:
        """Sets the slave's sequence beyond all that is known to be used, never back; the value, None where nothing was
        ever drawn. `gap`: values left free. Raises `LookupError` where the slave has no such sequence."""
        ...

    def changed_since(self, connection: Session, prefix: Prefix, schema: str, last: Position, now: Position) -> bool:
        """Whether the master has captured any change that was committed after `last`, up to `now`."""
        ...

    def follow(self, connection: Session, prefix: Prefix, schema: str, slave: str, start: Position) -> None:
        """The former master is a slave in state NORMAL at `start`, its tables of CHECKPOINT made where absent."""
        ...

    def validate(self, connection: Session, tables: Sequence[TableName]) -> list[str]:
        """Checks the rows of constraints that were made without, while the application goes on; those that rows
        violate, and how."""
        ...
