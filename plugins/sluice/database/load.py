"""What a load needs of a slave's vendor: examine and make tables, write rows, complete indexes and constraints."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from sluice.database.rows import KeyOrder, RowFormat
from sluice.database.schema import (
    CollationDefinition,
    Constraint,
    Index,
    SequenceDefinition,
    TableDefinition,
    TypeDefinition,
)
from sluice.database.session import Session
from sluice.model.blocks import Block, Key
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape


@dataclass(frozen=True)
class TouchingForeignKey:
    """A foreign key of the slave from or to a table that is loaded."""

    child: TableName
    name: str
    parent: TableName
    child_loaded: bool
    parent_loaded: bool

    def __str__(self) -> str:
        return f"{self.child}.{self.name} → {self.parent}"


@dataclass
class Completed:
    """The created objects, and those that could not be created: (object, reason)."""

    made: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def extend(self, other: "Completed") -> None:
        self.made += other.made
        self.left_out += other.left_out


class LoadTarget(Protocol):
    """The functions of a slave's vendor, over a session in autocommit, unless they say otherwise.

    `trusted`: any expression of the master may be run.
    """

    # The state before

    def refusals(self, connection: Session, definitions: Sequence[TableDefinition]) -> dict[TableName, str]:
        """Why the server would not create these tables, whose columns have its types, each with a remedy in the
        configuration. Creates nothing that anybody sees."""
        ...

    def not_tables(self, connection: Session, tables: Sequence[TableName]) -> dict[TableName, str]:
        """The tables of `tables` whose name the slave uses for another object, such as a view, with the kind of that
        object."""
        ...

    def missing_privileges(self, connection: Session, tables: Iterable[TableName]) -> dict[TableName, str]:
        """Table → privileges that this account lacks on it, e.g. `INSERT, DELETE`."""
        ...

    def foreign_keys(self, connection: Session, tables: Sequence[TableName]) -> list[TouchingForeignKey]:
        """The slave's foreign keys from or to any of `tables`."""
        ...

    def with_unique_values(self, connection: Session, tables: Sequence[TableName]) -> set[TableName]:
        """The tables of `tables` that have unique indexes other than the primary key."""
        ...

    def type_differences(self, connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
        """Why the slave cannot have `types`, one sentence each. What can be made or added is no difference."""
        ...

    def type_extensions(self, connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
        """The statements that give the slave's types the values that `types` have and they lack."""
        ...

    def missing_collations(
        self, connection: Session, used: Sequence[str], own: Sequence[CollationDefinition]
    ) -> list[str]:
        """The collations among `used` (qualified and quoted) that the slave lacks and cannot create.

        `own`: collations created on the master, which can be created if the server knows their provider.
        """
        ...

    # Tables

    def create_types(
        self,
        connection: Session,
        types: Sequence[TypeDefinition],
        collations: Sequence[CollationDefinition] = (),
        *,
        trusted: bool = False,
    ) -> list[str]:
        """Makes absent types and collations, in the caller's transaction. Returns the names of those.

        Raises `Terminal` for an expression that is not trusted; the transaction is lost then.
        """
        ...

    def extend_types(self, connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
        """Runs the `type_extensions`, each in its own transaction, and returns them."""
        ...

    def create_table(self, connection: Session, definition: TableDefinition, *, trusted: bool = False) -> None:
        """Makes an absent table with its key, in the caller's transaction.

        A default that the slave cannot have is left out and logged: replicated values never need it. Raises `Terminal`
        for an expression that is not trusted; the transaction is lost then.
        """
        ...

    def create_scratch(self, connection: Session, like: TableShape) -> TableName:
        """Makes a temporary table of this session with these columns; one a session."""
        ...

    def drop_table(self, connection: Session, table: TableName) -> None:
        """Drops a table that this update created, in the caller's transaction."""
        ...

    def strip(
        self, connection: Session, master: Sequence[Index], constraints_of_master: Sequence[Constraint]
    ) -> list[str]:
        """Drops what `complete_indexes` and `complete_constraints` create again later. Returns what it dropped.

        Only what has the same name and definition on the master, never the key, and nothing that this account may not
        drop.
        """
        ...

    def empty(self, connection: Session, shapes: Sequence[TableShape]) -> None:
        """Deletes all rows of these tables, together if they refer to each other; cascades to no other table."""
        ...

    # Rows

    def formats(self, columns: Sequence[Column], target: TableShape) -> Sequence[RowFormat]:
        """The formats in which these columns of the master can be written to `target`, best first."""
        ...

    def write(
        self,
        connection: Session,
        table: TableName,
        columns: Sequence[str],
        pieces: Iterable[bytes | memoryview],
        row_format: RowFormat,
    ) -> int:
        """Writes the rows of `pieces`, cut anywhere, into `columns` of `table`, in the caller's transaction.

        Returns how many rows. Passes on what `pieces` raises.
        """
        ...

    def clear(self, connection: Session, order: KeyOrder, block: Block) -> None:
        """Deletes the rows of a block, in the transaction that stores it, so that readers never miss them.

        Only where the slave orders keys as the master does (`KeyOrder.same_everywhere`), or where the block is a whole
        table.
        """
        ...

    def delete(self, connection: Session, order: KeyOrder, keys: Sequence[Key]) -> None:
        """Deletes the rows with these keys."""
        ...

    # After the load, while changes are applied

    def analyze(self, connection: Session, table: TableName) -> None:
        """Gathers statistics of the new rows for the slave's planner."""
        ...

    def complete_indexes(self, connection: Session, master: Sequence[Index], *, trusted: bool = False) -> Completed:
        """Makes the indexes, unique and exclusion constraints that the slave lacks.

        Makes an index again that an interrupted try left invalid.
        """
        ...

    def complete_constraints(
        self,
        connection: Session,
        master: Sequence[Constraint],
        replicated: Sequence[TableName],
        *,
        trusted: bool = False,
    ) -> Completed:
        """Makes the checks and foreign keys that the slave lacks, and validates those it has not validated.

        Only foreign keys to `replicated` tables, as the slave lacks the rows of others.
        """
        ...

    def complete_columns(self, connection: Session, tables: Sequence[TableName]) -> None:
        """Gives columns of `tables`, added while the slave left the table out, what waited for their values."""
        ...

    def advance_sequences(self, connection: Session, master: Sequence[SequenceDefinition]) -> int:
        """Sets the slave's sequences to the master's values, never back. Returns how many changed.

        Skips sequences that the slave lacks, or that the account may not read or set.
        """
        ...


class NoNumber(Exception):
    """A query did not return what can be compared with a limit."""


@dataclass(frozen=True)
class ServerLoad:
    """Counts leave Sluice's own sessions out."""

    sees_others: bool
    """Whether the account may see what other accounts do: without, sessions and standbys cannot be told."""
    active_sessions: int
    lock_waits: int
    wal: int
    """Bytes of the server's log of changes, written since the server exists."""
    replayed: list[int]
    """The place up to which each standby has replayed it."""
    replay_lag: float
    """Seconds, the greatest that the server measured; it stands still while a standby does."""
    clock: datetime


class ServerLoadMeter(Protocol):
    """Measures the load of a master over a read-only session."""

    GRANT: str
    """What to do if the account cannot see the sessions of others: a clause without full stop."""

    def read(self, connection: Session) -> ServerLoad:
        """The load now."""
        ...

    def number(self, connection: Session, query: str) -> float:
        """The result of a user's query, which may be anything. Raises `NoNumber`."""
        ...
