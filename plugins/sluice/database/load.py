"""What a slave offers to a load: tables examined and made, rows written, what was left out completed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluice.database.names_tables import NamesTables
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
class ForeignKeyMet:
    """A foreign key of the slave that a load would meet."""

    child: TableName
    name: str
    parent: TableName
    child_loaded: bool
    parent_loaded: bool

    def __str__(self) -> str:
        return f"{self.child}.{self.name} → {self.parent}"


@dataclass
class Completed:
    """What was made, and what could not be: `(what, why)`."""

    made: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def extend(self, other: "Completed") -> None:
        self.made += other.made
        self.left_out += other.left_out


class LoadTarget(NamesTables, Protocol):
    """Over a session on the slave; in autocommit where nothing else is said.

    `trusted`: whatever expression the master brings may be run.
    """

    # What is there before

    def not_tables(self, connection: Session, tables: Sequence[TableName]) -> dict[TableName, str]:
        """Names of `tables` that the slave uses for something else, such as a view, and for what."""
        ...

    def lacking_privileges(self, connection: Session, tables: Iterable[TableName]) -> dict[TableName, str]:
        """What this account may not do with existing tables, per table, e.g. `INSERT, DELETE`."""
        ...

    def foreign_keys(self, connection: Session, tables: Sequence[TableName]) -> list[ForeignKeyMet]:
        """The slave's foreign keys from or to any of `tables`."""
        ...

    def with_unique_values(self, connection: Session, tables: Sequence[TableName]) -> set[TableName]:
        """Those of `tables` that keep more unique than their primary key."""
        ...

    def type_differences(self, connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
        """Why the slave cannot have `types`, one sentence each; absent ones that can be made are no difference."""
        ...

    def collations_lacking(
        self, connection: Session, used: Sequence[str], own: Sequence[CollationDefinition]
    ) -> list[str]:
        """Which of the collations `used` (qualified and quoted) the slave lacks and cannot make.

        `own`: those of the master's own, which can be made where the server knows their provider.
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
        """Makes what is absent, in the caller's transaction; the names of what was made.

        Raises `Terminal` for an expression that is not trusted; the transaction is lost then.
        """
        ...

    def create_table(self, connection: Session, definition: TableDefinition, *, trusted: bool = False) -> None:
        """Makes an absent table with its key, in the caller's transaction. A default that the slave cannot have is left
        out and logged: replicated values never need it.

        Raises `Terminal` for an expression that is not trusted; the transaction is lost then.
        """
        ...

    def create_scratch(self, connection: Session, like: TableShape) -> TableName:
        """Makes a table with these columns that this session alone sees, and that ends with it; one a session."""
        ...

    def drop_table(self, connection: Session, table: TableName) -> None:
        """Removes a table that this update made, in the caller's transaction."""
        ...

    def strip(
        self, connection: Session, master: Sequence[Index], constraints_of_master: Sequence[Constraint]
    ) -> list[str]:
        """Drops what `complete_indexes` and `complete_constraints` will make again; what was dropped.

        Only what is the same as on the master, name and definition, and never the key. Where this account may not, it
        stays.
        """
        ...

    def empty(self, connection: Session, shapes: Sequence[TableShape]) -> None:
        """Deletes all rows of these tables; tables that refer to one another go together, nothing is cascaded."""
        ...

    # Rows

    def formats(self, columns: Sequence[Column], target: TableShape) -> Sequence[RowFormat]:
        """In which forms these columns of the master may be written to the same columns of `target`, best first."""
        ...

    def write(
        self,
        connection: Session,
        table: TableName,
        columns: Sequence[str],
        pieces: Iterable[bytes | memoryview],
        row_format: RowFormat,
    ) -> int:
        """Writes the rows of `pieces`, cut anywhere, into `columns` of `table`, in the caller's transaction; how many.

        What `pieces` raises ends the writing and comes out as it is.
        """
        ...

    def clear(self, connection: Session, order: KeyOrder, block: Block) -> None:
        """Deletes the rows of a block, in the transaction that stores it: readers never miss them.

        Only where the slave orders keys as the master does (`KeyOrder.same_everywhere`), or for a block that is a
        whole table.
        """
        ...

    def delete(self, connection: Session, order: KeyOrder, keys: Sequence[Key]) -> None:
        """Deletes the rows of these keys."""
        ...

    # After the load, while changes are applied

    def analyze(self, connection: Session, table: TableName) -> None:
        """Gathers statistics for the slave's planner, which has never seen these rows."""
        ...

    def complete_indexes(
        self,
        connection: Session,
        master: Sequence[Index],
        stopped: Callable[[], bool] = lambda: False,
        *,
        trusted: bool = False,
    ) -> Completed:
        """Makes the indexes, unique and exclusion constraints that the slave lacks.

        One left invalid by an earlier, interrupted try is made again. `stopped` is called before each.
        """
        ...

    def complete_constraints(
        self,
        connection: Session,
        master: Sequence[Constraint],
        replicated: Sequence[TableName],
        stopped: Callable[[], bool] = lambda: False,
        *,
        trusted: bool = False,
    ) -> Completed:
        """Makes the checks and foreign keys that the slave lacks, and validates those it has not validated.

        Only foreign keys to `replicated` tables: rows of others are not there.
        """
        ...

    def advance_sequences(self, connection: Session, master: Sequence[SequenceDefinition]) -> int:
        """Sets the slave's sequences to where the master's are, never back; how many moved.

        Those that the slave lacks are passed over, and those that the account may not read or set.
        """
        ...
