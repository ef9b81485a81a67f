"""What a failover needs from its two databases: definitions, sequences, a guard, and its record on the slave."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluice.database.digests import Compared, Texts
from sluice.database.session import Session
from sluice.model.failover import Action, Made, Phase, Record, SequenceValue, Sheet, Switch
from sluice.model.issue import Issue
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position, Window
from sluice.model.schema_definitions import Definition, Difference
from sluice.model.shape import TableShape


@dataclass(frozen=True)
class Guarded:
    """A table of the master, or a partition of one."""

    table: str
    """Quoted."""
    function: str
    """The function that refuses writes, if there is one."""
    laid: bool
    """Whether its trigger fires."""
    refuses: bool


@dataclass(frozen=True)
class Claim:
    """The claim of a failover on a master."""

    id: str
    slave: str
    phase: str
    """`guarded`, `switch` or `switched`."""


@dataclass
class ChangedRows:
    """The rows of a table that changed in a window."""

    keys: set[Texts] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    """Actions that are no change of a row."""


class FailoverTable(Protocol):
    """The row of `<prefix>FAILOVER` of one slave. The caller commits."""

    def exists(self) -> bool:
        """Whether the slave has a record."""
        ...

    def ensure(self) -> None:
        """Makes the table if it is absent."""
        ...

    def keep(self, sheet: Sheet) -> None:
        """Keeps the master's definitions, and how it became the master."""
        ...

    def sheet(self) -> Sheet | None:
        """The stored definitions of the master; None without any."""
        ...

    def read(self, *, lock: bool = False) -> Record | None:
        """The running or the last failover; None without one. `lock` locks the row until the commit."""
        ...

    def begin(self, failover_id: str, action: Action, reverse: bool, by: str) -> None: ...

    def learn(self, switches: Sequence[Switch]) -> None:
        """Adds changes of the master that another database knows of."""
        ...

    def switches(self) -> tuple[Switch, ...]:
        """All changes of the master that this database knows of, oldest first."""
        ...

    def move(
        self,
        phase: Phase,
        *,
        last: str | None = None,
        start: str | None = None,
        verified: str | None = None,
        compared: str | None = None,
        switch: Switch | None = None,
    ) -> None:
        """The failover has come to `phase`. Call it with the row's lock. `last`, `start`, `compared`: texts of
        positions."""
        ...

    def note_made(self, made: Made | None) -> None:
        """Records a change in the transaction that makes it; None: the last one was undone."""
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
        """Moves the claim from one of `phases` to `phase`; None: deletes it. Returns whether it was in such a phase."""
        ...

    def tables(self) -> list[Guarded]:
        """All tables that must refuse writes, and whether they do."""
        ...

    def lay(self) -> None:
        """Creates what `close` needs, which refuses nothing. No transaction waits for it for more than a moment. Raises
        `Terminal` if one does not end."""
        ...

    def close(self, message: str) -> None:
        """Each table refuses writes with `message`, all at once, and no transaction that wrote before is open when it
        returns. Raises `Terminal` if one does not end; then no table refuses writes."""
        ...

    def release(self) -> None:
        """Every table takes writes again when it returns, and nothing of the guard is left. Raises `Terminal` if
        triggers that refuse nothing any more could not be removed."""
        ...


class FailoverSupport(Protocol):
    """What a vendor does for a failover, over a session in autocommit on the slave, or on the master where stated."""

    PAST_TRIGGERS: str
    """Which sessions can write without firing triggers: a clause, `as … does`."""

    def FailoverStore(  # noqa: N802
        self, connection: Session, prefix: Prefix, schema: str, slave: str
    ) -> FailoverTable: ...

    def Guard(self, connection: Session, prefix: Prefix, schema: str) -> MasterGuard:  # noqa: N802
        """The guard of a master, or of a slave that was a master before."""
        ...

    def definitions(
        self, connection: Session, prefix: Prefix, tables: Sequence[TableName], *, all_roles: bool = False
    ) -> tuple[Definition, ...]:
        """The definitions of `tables` and their database other than rows, on either side."""
        ...

    def sequence_values(
        self, connection: Session, prefix: Prefix, tables: Sequence[TableName]
    ) -> tuple[SequenceValue, ...]:
        """The values of the sequences of columns of `tables`, and of those that applications call; on either side."""
        ...

    def server_time(self, connection: Session) -> str:
        """The server's clock, ISO 8601, UTC."""
        ...

    def sheet(
        self, connection: Session, prefix: Prefix, schema: str, server: str, tables: Sequence[TableName]
    ) -> Sheet:
        """Everything that a failover needs from a master, which messages call `server`. `schema`: of the resources."""
        ...

    def sessions_of(self, connection: Session, application: str) -> int:
        """How many other sessions of this account call themselves so in the database."""
        ...

    def missing_rights(self, connection: Session, differences: Sequence[Difference]) -> list[Issue]:
        """The missing rights for creating some of `differences`."""
        ...

    def make(self, connection: Session, store: FailoverTable, difference: Difference, *, trusted: bool = False) -> str:
        """Creates a definition on the slave, and records what undoes it, in one transaction; returns why that was
        refused.

        `trusted`: any expression of the master may be used. Raises errors that a retry may resolve, mostly of locks.
        """
        ...

    def undo(self, connection: Session, store: FailoverTable, made: Made) -> None:
        """Undoes the last recorded change, in one transaction."""
        ...

    def set_sequence(self, connection: Session, master: SequenceValue, gap: int, *, search: bool = True) -> int | None:
        """Sets the slave's sequence beyond all that is known to be used, never back; the value, None if nothing was
        ever drawn. `gap`: values left free. `search`: looks for the farthest value in the column, which may read the
        whole table. Raises `LookupError` if the slave has no such sequence."""
        ...

    def changed_since(self, connection: Session, prefix: Prefix, schema: str, last: Position, now: Position) -> bool:
        """Whether the master has captured any change that was committed after `last`, up to `now`."""
        ...

    def changed_rows(
        self, connection: Session, prefix: Prefix, schema: str, window: Window, shapes: Iterable[TableShape], most: int
    ) -> tuple[dict[TableName, ChangedRows], int]:
        """What changed of the tables `shapes` on the master; and how many changes of all tables were read, at most
        `most`."""
        ...

    def row_digests(
        self, connection: Session, shape: TableShape, columns: tuple[Compared, ...], keys: Sequence[Texts]
    ) -> list[int | None]:
        """For each of `keys` a digest of its row, alike on both sides; None without a row."""
        ...

    def follow(self, connection: Session, prefix: Prefix, schema: str, slave: str, start: Position) -> None:
        """Makes the former master a slave in state NORMAL at `start`; creates its CHECKPOINT and other tables if they
        are missing."""
        ...

    def validate_constraints(self, connection: Session, tables: Sequence[TableName]) -> list[str]:
        """Validates constraints that were created without checking rows, while the application works. Returns those
        that rows violate, and how."""
        ...
