"""Reading tables and their rows: the interface of a vendor."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sluice.database.digests import ComparedTable, Texts
from sluice.database.errors import TableFailure
from sluice.database.session import Session
from sluice.errors import Terminal, Transient
from sluice.model.blocks import Key
from sluice.model.key_ranges import Match
from sluice.model.logical_type import ColumnType, Special
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.row_condition import RowCondition
from sluice.model.shape import Column, TableShape


class SnapshotGone(Transient):
    """An exported snapshot has ended, or a table has changed since."""


class TableGone(Transient):
    """The table does not exist on the master, or no longer."""

    def __init__(self, server: str, shape: TableShape):
        super().__init__(
            f"{server}: table {shape.table} is gone. Its DROP will reach the slave; if it was renamed, run the DAG "
            "reconcile_tables and start a new initial update."
        )
        self.table = shape.table


class TableRefused(TableFailure):
    """One table cannot be read or written, for its own reason: all others can."""


def table_changed(server: str, table: TableName, what: str = "was altered or dropped") -> Transient:
    """A table was altered or dropped since its definition was read."""
    return Transient(f"{server}: table {table} {what}; look at it again.", code="table-changed")


@dataclass(frozen=True)
class Estimate:
    """The size of a table by the last statistics; `rows` None if there are none."""

    rows: int | None
    bytes: int


class KeyOrder(Protocol):
    """The order of one table's keys on one database. Its texts are for the vendor's own statements."""

    @property
    def shape(self) -> TableShape: ...

    @property
    def same_everywhere(self) -> bool:
        """Whether every database orders these keys alike."""
        ...

    @property
    def equal(self) -> tuple[str, ...]:
        """The equality operator of each key column."""
        ...

    @property
    def source(self) -> str: ...

    @property
    def by(self) -> str: ...

    def within(self, lo: Key | None, hi: Key | None) -> str: ...

    def next_bound(self, connection: Session, lo: Key | None, hi: Key | None, rows: int) -> Key | None:
        """The key after the first `rows` rows from `lo` on; None if there are no more before `hi`."""
        ...


class MasterKeyOrder(KeyOrder, Protocol):
    """The order of keys on a master, whose rows are read in it."""

    def select(
        self,
        columns: Sequence[Column],
        lo: Key | None,
        hi: Key | None,
        *,
        locked: bool = False,
        canonical: bool = False,
        where: Sequence[RowCondition] = (),
    ) -> str:
        """The query for the rows of a block, in key order.

        `locked`: locks the rows until the transaction ends. `canonical`: as canonical texts, which every vendor reads.
        `where`: rows that do not meet all of these conditions may be left out.
        """
        ...


class RowFormat(StrEnum):
    """The format of a stream of rows. Where reader and writer share one, rows are passed on without parsing."""

    CSV = "csv"
    """CSV with a header, in UTF-8; an empty field is NULL, an empty text is quoted. Every vendor supports it."""
    COPY_TEXT = "copy text"
    """PostgreSQL's."""
    COPY_BINARY = "copy binary"
    """PostgreSQL's, if the types have the same binary form on both sides."""


class RowStream(Protocol):
    """The rows of a query, in pieces that are cut anywhere; an empty piece when a second passes without rows."""

    @property
    def rows(self) -> int:
        """The number of rows, after the last piece."""
        ...

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """Call it once. After an error the session may be in the middle of a result: close it."""
        ...


class BlockRead(Protocol):
    """The transaction in which a block is read: its marker, and the table's definition then."""

    @property
    def marker(self) -> Position: ...

    @property
    def shape(self) -> TableShape: ...

    @property
    def locked(self) -> bool:
        """Whether to lock its rows."""
        ...

    @property
    def open(self) -> bool:
        """Whether the transaction is open."""
        ...

    def end(self) -> None:
        """Ends the transaction, and releases its locks, when all rows are read."""
        ...


class Rows(Protocol):
    """Reads tables, keys and snapshots, over a session on the database."""

    def shapes(self, connection: Session, tables: Iterable[TableName]) -> dict[TableName, TableShape]:
        """The shape of each of `tables` that exists."""
        ...

    def shape(self, connection: Session, table: TableName) -> TableShape | None:
        """The shape of one table; None if it does not exist."""
        ...

    def tables(self, connection: Session) -> list[TableName]:
        """All tables outside the system's schemas, without partitions."""
        ...

    def estimates(self, connection: Session, tables: Sequence[TableName]) -> dict[TableName, Estimate]:
        """The size of each of `tables` that exists, from statistics, without counting."""
        ...

    def key_order(self, connection: Session, shape: TableShape) -> KeyOrder: ...

    def begin_snapshot(self, connection: Session, exported: str | None = None) -> None:
        """Begins a reading transaction with its own snapshot, or with another session's `exported` one."""
        ...

    def export_snapshot(self, connection: Session) -> str:
        """Exports the transaction's snapshot. Returns its name; others can import it while the transaction lasts."""
        ...

    def rows_under(
        self, connection: Session, of: ComparedTable, keys: Sequence[Texts], *, alike: bool = False
    ) -> list[Texts | None]:
        """For each of `keys`, the row with exactly these key texts; None without one. Raises `table-changed`.

        `alike`: also rows whose key is equal with another text.
        """
        ...

    def copies(self, connection: Session, of: ComparedTable, rows: Sequence[Texts]) -> list[int]:
        """How many copies of each of these rows a keyless table has. Raises `table-changed`."""
        ...

    def whole(self, connection: Session, table: TableName) -> bool:
        """Whether the transaction still sees all rows of its snapshot: the table was not emptied or rewritten since."""
        ...


class MasterRows(Rows, Protocol):
    """Reads the rows of a master, too."""

    def key_order(self, connection: Session, shape: TableShape) -> MasterKeyOrder: ...

    @property
    def formats(self) -> Collection[RowFormat]:
        """The formats in which rows can be streamed."""
        ...

    def stream(
        self, connection: Session, query: str, row_format: RowFormat, taken: Callable[[], None] | None = None
    ) -> RowStream:
        """The rows of `query` (`KeyOrder.select`), in a transaction.

        With `taken` all rows are read before the first piece is returned, and `taken` is called in between.
        """
        ...

    def reading_exported(
        self, connection: Session, table: TableShape, exported: str, marker: Position
    ) -> AbstractContextManager[BlockRead]:
        """As `ChangeQueue.reading`, in the snapshot `exported`, whose position is `marker`. Also raises
        `SnapshotGone`."""
        ...

    def special(
        self, connection: Session, table: TableShape, column_types: Mapping[str, ColumnType]
    ) -> tuple[str, Special, dict[str, str | None]] | None:
        """A row in which one of the columns `column_types` has a value that its `ColumnType` excludes: the column,
        the value, and the row's key as texts.

        None without one. Reads the table once.
        """
        ...


class SelectionInvalid(Terminal):
    """The given condition or keys choose no part of the table."""


class NotEvaluated(Transient):
    """A condition could not be evaluated just now."""


class RowSelection(Protocol):
    """Evaluates conditions over a session in autocommit. Raises `SelectionInvalid` or `NotEvaluated` for a condition
    that it cannot evaluate."""

    def check(self, connection: Session, order: KeyOrder, where: str, server: str) -> None:
        """Raises `SelectionInvalid` for a condition that this database, named `server`, does not understand."""
        ...

    def matching(self, connection: Session, order: KeyOrder, where: str) -> Iterator[list[Key]]:
        """The keys of the rows that match `where`, some at a time."""
        ...


class MasterSelection(RowSelection, Protocol):
    """The master says which keys match."""

    def key_of(self, connection: Session, shape: TableShape, text: str) -> Key:
        """A key as a person writes it: the value, or a JSON list of one value a key column; its canonical texts.

        Raises `SelectionInvalid`.
        """
        ...

    def runs(self, connection: Session, order: KeyOrder, where: str, lo: Key | None, hi: Key | None) -> Iterator[Match]:
        """The runs of neighboring rows that match `where`, in key order, between `lo` and `hi`.

        Each ends at the next row that does not match. Reads the table once.
        """
        ...

    def in_order(self, connection: Session, shape: TableShape, keys: Sequence[Key]) -> list[Key]:
        """`keys` as this database orders them."""
        ...
