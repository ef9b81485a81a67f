"""What a master offers as a source of changes: positions, the changes between two of them, what was purged."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from sluice.counted import counted
from sluice.database.session import Session
from sluice.errors import SluiceError
from sluice.model.backlog import Backlog
from sluice.model.blocks import Key
from sluice.model.change import Action
from sluice.model.connection import ConnectionInfo
from sluice.model.feed import FeedPosition
from sluice.model.foreign_key import ForeignKey
from sluice.model.joining import Rows
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.purging import SlaveNote
from sluice.model.shape import TableShape
from sluice.model.window import Window

if TYPE_CHECKING:
    import pyarrow as pa


WaitingChange = tuple[str, str | None, str | None]
"""Action, CONTENT, OLDCONTENT."""


@dataclass(frozen=True)
class WaitingTable:
    """What a transaction that waits changes of one table."""

    table: TableName
    changes: int
    actions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.table} ({counted(self.changes, 'change')}: {', '.join(self.actions)})"


class TooManyBytes(SluiceError):
    """A window holds more than its reader was asked to bring; reading stopped half-way."""

    def __init__(self, max_bytes: int):
        super().__init__(f"The window holds more than {max_bytes:,} bytes.")


@dataclass(frozen=True)
class Share:
    """One of `of` disjoint shares of a window: all changes of a key are in the same one.

    UPDATEs that change a key are in none of them, nor are TRUNCATE and DDL: their keys are two, and
    the driver reads them apart (`ChangeReader.key_changes`).
    """

    number: int
    of: int


@dataclass(frozen=True)
class Cut:
    """An item that cuts the stream: all before it is applied, then it, then the rest."""

    repl_key: int
    transaction: int
    action: str
    table: TableName


@dataclass(frozen=True)
class Survey:
    """What waits in a window, or at its beginning."""

    changes: int
    last: int | None
    """REPL_KEY of the last of them: where a slice of that many changes ends."""
    bytes: int
    """Of their contents, as texts."""
    key_changes: int
    """UPDATEs that change a key."""
    cuts: tuple[Cut, ...]
    more: bool
    """Whether changes of the window follow after these."""


class ChangeReader(Protocol):
    """Reads windows over connections of its own; used by one thread at a time.

    `images` reads OLDCONTENT of every change. After a `Transient` error it connects anew by itself at the next call.
    """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def items(
        self,
        window: Window,
        *,
        share: Share | None = None,
        images: bool = False,
        max_bytes: int | None = None,
        rows_of: TableName | None = None,
    ) -> "pa.Table":
        """The changes in REPL_KEY order, columns as in `sluice.database.items`. `rows_of`: those of its rows alone.

        Raises `TooManyBytes` when `max_bytes` are passed.
        """
        ...

    def key_changes(
        self,
        window: Window,
        *,
        guids: Mapping[TableName, Collection[str]] | None = None,
        images: bool = False,
    ) -> "pa.Table":
        """UPDATEs that change a key; with `guids` all changes of these keys, and of keys that become one of them."""
        ...

    def survey(
        self,
        window: Window,
        *,
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> Survey:
        """What waits, as far as `limit` changes or `max_bytes`."""
        ...

    def has(self, window: Window, action: Action) -> bool:
        """Whether a change of this action is in the window."""
        ...

    def close(self) -> None:
        """Ends the connections."""
        ...


class ChangeSource(Protocol):
    """What an apply asks of the source of changes, over a session there, in autocommit where nothing else is said.

    `schema`: of the resources, where the source is a database.
    """

    def Reader(  # noqa: N802
        self, info: ConnectionInfo, prefix: Prefix, schema: str, *, application: str = "sluice"
    ) -> ChangeReader: ...

    def take(self, connection: Session, prefix: Prefix, schema: str, previous: Position | None = None) -> Position:
        """The position at which the master stands now, good as the end of a window that begins at `previous`.

        Raises `DataLost` where the master is not the one that `previous` was taken from, or went back.
        """
        ...

    def beginning(self, connection: Session, prefix: Prefix, schema: str, after: int | None) -> Position | None:
        """Where a slave begins that has no checkpoint; None where an initial update must bring its rows first.

        `after`: the number of the change behind which it begins, None for all that there is. Raises `Terminal` where no
        transaction ends there.
        """
        ...

    def window_end(
        self, connection: Session, prefix: Prefix, schema: str, previous: Position, changes: int
    ) -> Position:
        """Where a window that begins at `previous` ends: at a state that the master had.

        Where the master stands now, or before that where the source knows such a state after about so many changes.
        Raises `DataLost` as `take`.
        """
        ...

    def secure(self, connection: Session, position: Position) -> None:
        """Returns when no crash of the master can undo what `position` saw: before a slave shows it."""
        ...

    def registered(self, connection: Session, prefix: Prefix, schema: str) -> list[TableName]:
        """The tables whose changes are captured, or are to be."""
        ...

    def foreign_keys(self, connection: Session, tables: Iterable[TableName]) -> list[ForeignKey]:
        """Those by which `tables` refer to others, or to themselves."""
        ...

    def definitions(
        self,
        connection: Session,
        prefix: Prefix,
        schema: str,
        tables: Sequence[TableName],
        seen: Position,
        above: int,
    ) -> dict[TableName, TableShape]:
        """The definition of each of `tables` under which its next change after `seen`, above the REPL_KEY `above`, was
        captured. None of a table that is gone without a trace.
        """
        ...

    def compare_definitions(self, connection: Session, prefix: Prefix, schema: str) -> int:
        """Queues an item for each change of a definition that nothing else reported; how many.

        Finds nothing this time where writers or DDL hold the locks that it needs.
        """
        ...

    def definitions_digest(self, connection: Session, prefix: Prefix, schema: str) -> str:
        """Changes when there is something new to compare definitions for."""
        ...

    def reports_definitions(self, connection: Session, prefix: Prefix, schema: str) -> bool:
        """Whether the master reports changes of definitions by itself."""
        ...

    def locate(self, connection: Session, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
        """In which block each of `keys` lies: how many `bounds` are at or below it, as the master orders keys."""
        ...

    def purged(self, connection: Session, prefix: Prefix, schema: str) -> list[Position]:
        """The positions of the last purge: what all of them cover may be gone."""
        ...


class ChangeQueue(ChangeSource, Protocol):
    """A master that keeps its changes in a queue of its own until every slave has them."""

    def captured(self, connection: Session, prefix: Prefix, schema: str) -> dict[TableName, str | None]:
        """The registered tables; of each what is wrong with its capture, None for nothing."""
        ...

    def changes_of(
        self,
        connection: Session,
        prefix: Prefix,
        schema: str,
        window: Window,
        table: TableName,
        most: int,
    ) -> list[WaitingChange]:
        """The changes of `table` in the window, in order; `most` of them."""
        ...

    def first_transaction(
        self, connection: Session, prefix: Prefix, schema: str, window: Window, left_out: Collection[TableName]
    ) -> list[WaitingTable]:
        """What the first transaction of the window changes that changes any table not `left_out`; empty for none."""
        ...

    def check_definitions(self, connection: Session, prefix: Prefix, schema: str) -> int:
        """As `compare_definitions`, but waits for the locks."""
        ...

    def joining(self, connection: Session, prefix: Prefix, schema: str, applied: Position) -> dict[TableName, bool]:
        """The tables that join after `applied`; whether all of their rows follow in the stream."""
        ...

    def row_counts(self, connection: Session, tables: Sequence[TableName]) -> dict[TableName, Rows]:
        """How many rows each of `tables` has: counted where they are few, else estimated."""
        ...

    def purge(
        self,
        connection: Session,
        prefix: Prefix,
        schema: str,
        positions: Iterable[Position],
        *,
        batch: int = 20_000,
    ) -> int:
        """Deletes the changes that all of `positions` cover; how many. Each batch is one transaction.

        `positions`: the checkpoints of every slave; leaving one out loses its changes.
        """
        ...

    def backlog(self, connection: Session, prefix: Prefix, schema: str) -> Backlog:
        """How much waits in ITEMS, and who holds the purge as far as was noted."""
        ...

    def waiting(self, connection: Session, prefix: Prefix, schema: str) -> tuple[int, int]:
        """How many changes are in ITEMS, counted, and about how many bytes they are."""
        ...

    def note_holders(self, connection: Session, prefix: Prefix, schema: str, slaves: Iterable[str]) -> None:
        """Notes that `slaves` hold the purge; nobody: that it goes on."""
        ...

    def feeds(self, connection: Session, prefix: Prefix, schema: str) -> list[FeedPosition]:
        """Up to where each feed has read, by feed and table."""
        ...

    def note_feed(self, connection: Session, prefix: Prefix, schema: str, read: FeedPosition) -> None:
        """Keeps up to where a feed has read: what it covers may be purged, as far as it goes."""
        ...

    def drop_feed(self, connection: Session, prefix: Prefix, schema: str, feed: str) -> int:
        """Forgets a feed; of how many tables."""
        ...

    def noted(self, connection: Session, prefix: Prefix, schema: str) -> dict[str, SlaveNote]:
        """What the last purge noted of the slaves."""
        ...

    def note(self, connection: Session, prefix: Prefix, schema: str, slaves: Mapping[str, SlaveNote]) -> None:
        """Keeps it for the next purge."""
        ...
