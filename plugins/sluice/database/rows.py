"""What a database knows of its tables and their rows."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sluice.database.digests import Compared, Texts
from sluice.database.names_tables import NamesTables
from sluice.database.session import Session
from sluice.errors import Transient
from sluice.model.blocks import Key
from sluice.model.logical_type import ColumnType, Special
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.row_condition import RowCondition
from sluice.model.shape import Column, TableShape


class SnapshotGone(Transient):
    """An exported snapshot is held no longer, or a table is no longer what it was in it."""


class TableGone(Transient):
    """The table does not exist on the master (any more)."""

    def __init__(self, place: str, shape: TableShape):
        super().__init__(
            f"{place}: table {shape.table} is gone. Its DROP will reach the slave; if it was renamed, run the DAG "
            "reconcile_tables and start a new initial update."
        )
        self.table = shape.table


class TableChanged(Transient):
    """A table is not what it was when somebody looked at it."""

    def __init__(self, place: str, table: TableName, what: str = "was altered or dropped"):
        super().__init__(f"{place}: table {table} {what}; look at it again.")
        self.table = table


@dataclass(frozen=True)
class Estimate:
    """Rows (None: the table was never analysed) and bytes, both as of the last statistics."""

    rows: int | None
    bytes: int


class KeyOrder(NamesTables, Protocol):
    """How one database orders the keys of one table. Its texts are for the vendor's own statements."""

    @property
    def shape(self) -> TableShape: ...

    @property
    def same_everywhere(self) -> bool:
        """True when every database orders these keys alike."""
        ...

    @property
    def equal(self) -> tuple[str, ...]:
        """For each key column the operator that compares its values."""
        ...

    @property
    def source(self) -> str: ...

    @property
    def by(self) -> str: ...

    def within(self, lo: Key | None, hi: Key | None) -> str: ...

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
        """The query for the rows of a block, in key order; `locked` against changes until the transaction ends.

        `canonical`: values are streamed as their canonical texts, which every vendor reads. `where`: rows that do
        not meet all of these conditions may be left out.
        """
        ...

    def next_bound(self, connection: Session, lo: Key | None, hi: Key | None, rows: int) -> Key | None:
        """The key that follows the first `rows` rows from `lo` on; None when no more are left before `hi`."""
        ...


class RowFormat(StrEnum):
    """How rows travel. A reader and a writer that share one of them may pass rows on without looking inside."""

    CSV = "csv"
    """With a header; UTF-8, an empty field is NULL and an empty text is quoted. Every vendor has it."""
    COPY_TEXT = "copy text"
    """PostgreSQL's."""
    COPY_BINARY = "copy binary"
    """PostgreSQL's, where the types of both sides have one binary form."""


class RowStream(Protocol):
    """The rows of a query, in pieces that are cut anywhere; empty ones while a second passes without any."""

    @property
    def rows(self) -> int:
        """How many there were, once all pieces were taken."""
        ...

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """To be called once. After an error the session may be in the middle of a result: close it."""
        ...


class BlockRead(Protocol):
    """What a block is read at: the marker, and the table as it was then."""

    @property
    def marker(self) -> Position: ...

    @property
    def shape(self) -> TableShape: ...

    @property
    def locked(self) -> bool:
        """Whether its rows are to be locked."""
        ...

    @property
    def open(self) -> bool:
        """Whether its transaction lasts."""
        ...

    def end(self) -> None:
        """All rows were taken: the transaction ends, with the locks it holds."""
        ...


class RowSource(NamesTables, Protocol):
    """Tables, keys and snapshots, over a session on the database."""

    @property
    def formats(self) -> Collection[RowFormat]:
        """In which forms rows can be streamed."""
        ...

    @property
    def shared_snapshots(self) -> bool:
        """Whether other sessions may begin with an exported snapshot. Else they begin while nobody writes."""
        ...

    def stream(
        self, connection: Session, query: str, row_format: RowFormat, taken: Callable[[], None] | None = None
    ) -> RowStream:
        """The rows of `query` (`KeyOrder.select`), in a transaction.

        With `taken` all rows are taken before the first is given, and it is called between the two.
        """
        ...

    def shapes(self, connection: Session, tables: Iterable[TableName]) -> dict[TableName, TableShape]:
        """The shape of each of `tables` that exists."""
        ...

    def shape(self, connection: Session, table: TableName) -> TableShape | None:
        """The shape of one table, None when it does not exist."""
        ...

    def tables(self, connection: Session) -> list[TableName]:
        """Every table outside the system's schemas, partitions left out."""
        ...

    def estimates(self, connection: Session, tables: Sequence[TableName]) -> dict[TableName, Estimate]:
        """One entry for each of `tables` that exists, from statistics: nothing is counted."""
        ...

    def key_order(self, connection: Session, shape: TableShape) -> KeyOrder: ...

    def reading(
        self,
        connection: Session,
        table: TableShape,
        prefix: Prefix,
        schema: str,
        lock_seconds: float | None = None,
    ) -> AbstractContextManager[BlockRead]:
        """A transaction with a snapshot of its own, on a session in autocommit.

        `lock_seconds`: it may lock rows, and no statement of it waits or holds them longer. After an error inside the
        session may be in the middle of a result: close it. Raises `Transient` where the table is gone.
        """
        ...

    def reading_exported(
        self, connection: Session, table: TableShape, exported: str, marker: Position
    ) -> AbstractContextManager[BlockRead]:
        """The same in the snapshot `exported`, whose position is `marker`. Raises `SnapshotGone` as well."""
        ...

    def begin_snapshot(self, connection: Session, exported: str | None = None) -> None:
        """Begins a transaction that reads and sees one moment: now, or that of another's `exported` snapshot."""
        ...

    def export_snapshot(self, connection: Session) -> str:
        """Names the transaction's snapshot; others may begin with it as long as this transaction lasts."""
        ...

    def position_of_snapshot(
        self, connection: Session, prefix: Prefix, schema: str, earlier: Position, previous: Position | None
    ) -> Position:
        """The position of the snapshot of a transaction just begun on the master, good as the end of a window.

        `earlier`: a position taken before the transaction began. `previous`: what the window begins with; None where
        nothing was applied before.
        """
        ...

    def rows_under(
        self,
        connection: Session,
        table: TableName,
        key: Sequence[str],
        columns: Sequence[Compared],
        keys: Sequence[Texts],
        *,
        alike: bool = False,
        canonical: bool = False,
    ) -> list[Texts | None]:
        """For each of `keys` the row under exactly these texts, None where there is none.

        `canonical`: the texts are canonical ones, see `digests.by_canonical_texts`. `alike`: a row whose key is equal,
        though its text is not, is meant as well. Raises `TableChanged`.
        """
        ...

    def copies(
        self,
        connection: Session,
        table: TableName,
        columns: Sequence[Compared],
        wanted: Sequence[Texts],
        *,
        canonical: bool = False,
    ) -> list[int]:
        """How often a table without a key has each of these rows. Raises `TableChanged`."""
        ...

    def special(
        self, connection: Session, table: TableShape, wanted: Mapping[str, ColumnType]
    ) -> tuple[str, Special, dict[str, str | None]] | None:
        """A row in which one of the columns `wanted` has a value that its `ColumnType` excludes: the column, what its
        value is, the row's key as texts. None where there is none. Reads the table once.
        """
        ...

    def whole(self, connection: Session, table: TableName) -> bool:
        """Whether the transaction's snapshot still sees the rows that the table had in it."""
        ...
