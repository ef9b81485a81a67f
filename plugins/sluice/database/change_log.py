"""A database that logs its own changes, as a recorder reads them: whole transactions in the order of their commits."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from sluice.errors import DataLost
from sluice.model.blocks import Key
from sluice.model.connection import ConnectionInfo
from sluice.model.foreign_key import ForeignKey
from sluice.model.joining import Rows as RowCount
from sluice.model.logical_type import LogicalType
from sluice.model.names import TableName
from sluice.model.shape import TableShape


@dataclass(frozen=True)
class LoggedColumn:
    """A column of a table in the log, in no vendor's words."""

    name: str
    logical: LogicalType
    nullable: bool
    key: int = 0
    """Its place in the key, from 1; 0: it is not in the key."""
    generated: str = ""
    """`s` stored, `v` virtual: its values are in no change."""


@dataclass(frozen=True)
class LoggedTable:
    """A table as the log describes it."""

    table: TableName
    columns: tuple[LoggedColumn, ...]
    certain: bool = True
    """Whether its key is known. Else it was altered again since, and the log alone describes it."""


@dataclass(frozen=True)
class Rows:
    """Row changes of one table, in their order."""

    table: LoggedTable
    action: str
    """`insert`, `update` or `delete`."""
    rows: list[Any]
    """Rows as texts by columns, None for NULL; of updates pairs of old and new row."""


class Event(StrEnum):
    """What happened to a table besides changes of its rows."""

    CREATED = "created"
    EMPTIED = "emptied"
    DROPPED = "dropped"
    RENAMED = "renamed"
    ALTERED = "altered"
    UNKNOWN = "unknown"
    """Its rows changed in a way that the log does not tell."""


@dataclass(frozen=True)
class TableEvent:
    """What a statement did to a table. Columns are named in small letters: their case tells none apart."""

    event: Event
    table: TableName
    other: TableName | None = None
    """Its new name."""
    reason: str = ""
    """Why its rows are unknown from there on."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Columns with another name: from the former to the new one. All of them at once: two may swap their names."""
    filled: Mapping[str, str | None] = field(default_factory=dict)
    """Added columns: the value in older rows."""
    dropped: Collection[str] = ()
    """Columns that went; one that was added may have the name of one of them."""
    converted: Mapping[str, str] = field(default_factory=dict)
    """Columns with a type, by their former names: what it has in common with other types between which a value stays as
    it is; empty: it has no other."""
    rekeyed: bool = False
    """A key may be gone."""


Part = Rows | TableEvent


@dataclass(frozen=True)
class LogPlace:
    """The place after a transaction."""

    server: str
    """Identifies the server."""
    transactions: str
    """All transactions up to there, as the vendor writes such a set."""
    file: str
    offset: int
    last: str = ""
    """The last transaction before it; empty if none was read."""
    checksum: int = 0
    """Of that transaction's rows."""
    before: str = ""
    """The set without that transaction, and without those that were prepared and not decided: reading begins there."""


@dataclass(frozen=True)
class Transaction:
    """A committed transaction of the log."""

    place: LogPlace
    """After it."""
    time: str
    """When it was committed, as its session has it: ISO 8601, UTC."""
    parts: Iterator[Part]
    """To be read once, before the next transaction. Empty if it changed nothing that is replicated. Raises
    `LogUnreadable`."""


class LogUnreadable(DataLost):
    """What the log has from a place on cannot be followed."""

    def __init__(self, server: str, reason: str):
        super().__init__(
            f"{server}: {reason}. Later changes are not recorded: load the slaves' tables again and begin a new stream "
            "in another folder."
        )
        self.reason = reason


class ChangeLog(Protocol):
    """Reads the log of one server, over its own connections; for one thread at a time."""

    def __enter__(self) -> "ChangeLog": ...

    def __exit__(self, *_: object) -> None: ...

    def expect_fit(self, *, tables: bool) -> None:
        """Raises `Terminal` with all that the server and the account lack, and the `tables`, each with the remedy."""
        ...

    def end(self) -> LogPlace:
        """The end of the log now. Raises `DatabaseError`."""
        ...

    def tables(self) -> Collection[LoggedTable]:
        """The replicated tables as they are now."""
        ...

    def read(self, after: LogPlace, *, waits: bool) -> Iterator[Transaction | None]:
        """The transactions after a place. None: nothing more is there at the moment, said about once a second.

        `waits`: continues until the connection ends; otherwise ends there. Raises `LogUnreadable` if the log does
        not continue what was read before, `DatabaseError`, `Terminal`.
        """
        ...

    def clock(self) -> datetime:
        """The server's time now."""
        ...

    def described(self, tables: Sequence[TableName], at: LogPlace) -> Collection[LoggedTable]:
        """Those of `tables` that can be read, as they are at the end of the log; none if `at` is not its end."""
        ...

    def kept_seconds(self) -> float | None:
        """After so long the server deletes a file of its log, read or not; None: never."""
        ...


class ChangeLogClass(Protocol):
    """`wanted`: which tables are replicated. `application`: the name of the connections."""

    def __call__(self, info: ConnectionInfo, covers: Callable[[TableName], bool], *, application: str) -> ChangeLog: ...


@dataclass(frozen=True)
class Span:
    """The two places of the log between which a snapshot of the tables lies: the log runs ahead of what tables show."""

    shown: Callable[[LogPlace], bool]
    """Whether the snapshot certainly shows all transactions up to a place."""
    logged: Callable[[LogPlace], bool]
    """Whether the log had all transactions up to a place when the snapshot was there."""
    ended: Callable[[LogPlace], bool]
    """Whether the log has all transactions up to a place that it had when the snapshot was there."""


class RowsBesideLog(Protocol):
    """The tables of a server whose log is recorded, over a session there; one snapshot at a time."""

    server: str

    def end(self) -> Callable[[LogPlace], bool]:
        """Whether everything that is in the log now is in it up to a place."""
        ...

    def begin(self, table: TableName | None = None) -> Span:
        """Begins a transaction with a snapshot, in which the definition of `table` cannot change. Raises
        `UndefinedTable`."""
        ...

    def leave(self) -> None:
        """Ends the transaction and `correct`; never raises."""
        ...

    def correct(self, rows: Mapping[Key, Mapping[str, str | None] | None]) -> None:
        """The rows of these keys are read as given, None: not at all, even if the snapshot shows them."""
        ...

    def shape(self, table: TableName) -> TableShape | None: ...

    def locate(self, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
        """See `sluice.database.changes.ChangeSource.locate`."""
        ...

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        """The foreign keys of `tables`."""
        ...

    def row_counts(self, tables: Iterable[TableName]) -> dict[TableName, RowCount]:
        """The number of rows of each of `tables`: counted if they are few, otherwise estimated."""
        ...
