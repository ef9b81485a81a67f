"""A source of changes: positions, the changes between two of them, the purge."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from sluice.counted import counted
from sluice.database.errors import TableFailure
from sluice.database.rows import BlockRead
from sluice.errors import SluiceError
from sluice.model.blocks import Key
from sluice.model.connection import ConnectionInfo
from sluice.model.feed import FeedPosition
from sluice.model.foreign_key import ForeignKey
from sluice.model.items_limit import Room
from sluice.model.joining import Rows
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position, Window
from sluice.model.purging import Backlog, SlaveNote
from sluice.model.shape import TableShape

if TYPE_CHECKING:
    import pyarrow as pa


WaitingChange = tuple[str, str | None, str | None]
"""Action, CONTENT, OLDCONTENT."""


LARGEST_CHANGE = 256 << 20
"""Bytes of the contents of one change, old and new, above which they are not read. Applying takes several copies."""


@dataclass(frozen=True)
class Oversized:
    """A change whose contents are not read, because they would fill the memory."""

    repl_key: int
    table: TableName
    bytes: int
    """0: the capture did not keep the contents."""


class ChangeTooLarge(TableFailure):
    """A change is larger than an apply can take, or than the capture keeps."""

    def __init__(self, change: Oversized, largest: int):
        which = f"{change.table}: one change, REPL_KEY {change.repl_key},"
        super().__init__(
            change.table,
            f"{which} has {change.bytes / 1e6:,.0f} MB. Up to {largest / 1e6:,.0f} MB are read, so that one row does "
            "not take the memory of all tables. Raise apply.max_change_bytes where the apply has ten times as much "
            "memory, then load the table again."
            if change.bytes
            else f"{which} is of a row whose texts have more than {LARGEST_CHANGE >> 20} MB, or one that is not valid "
            "in the master's encoding: the capture keeps no such row. Take its column out of the replication, or the "
            "table, or load the table again after such changes.",
        )


@dataclass(frozen=True)
class WaitingTable:
    """The changes of one table in a transaction that waits."""

    table: TableName
    changes: int
    actions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.table} ({counted(self.changes, 'change')}: {', '.join(self.actions)})"


class TooManyBytes(SluiceError):
    """A window has more bytes than the reader may read; reading was stopped."""

    def __init__(self, max_bytes: int):
        super().__init__(f"The window holds more than {max_bytes:,} bytes.")


@dataclass(frozen=True)
class Share:
    """One of `of` disjoint shares of a window. All changes of a key are in the same share.

    UPDATEs that change a key are in no share, as they have two keys; the driver reads them (`key_changes`). TRUNCATE
    and DDL are in no share either.
    """

    number: int
    of: int


@dataclass(frozen=True)
class Cut:
    """An item that other changes must not pass."""

    repl_key: int
    transaction: int
    action: str
    table: TableName


@dataclass(frozen=True)
class Survey:
    """The changes of a window, or of its beginning, counted."""

    changes: int
    last: int | None
    """REPL_KEY of the last change: where a slice of so many changes ends."""
    bytes: int
    """The size of the contents, as texts."""
    key_changes: int
    """UPDATEs that change a key."""
    cuts: tuple[Cut, ...]
    more: bool
    """Whether further changes of the window follow."""
    unordered: bool = False
    """Whether changes may be in another order than they happened; the last change of each key is its last one."""
    oversized: tuple[Oversized, ...] = ()
    """Changes that come without contents."""


class ChangeReader(Protocol):
    """Reads windows over its own sessions; for one thread at a time.

    `images`: with OLDCONTENT of every change. After a `Transient` error the next call connects again.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def items(
        self,
        window: Window,
        *,
        share: Share | None = None,
        images: bool = False,
        max_bytes: int | None = None,
        rows_of: TableName | None = None,
    ) -> "pa.Table":
        """The changes in REPL_KEY order, with the columns of `sluice.database.items`. Raises `TooManyBytes`.

        `rows_of`: only changes of this table's rows.
        """
        ...

    def key_changes(
        self,
        window: Window,
        *,
        guids: Mapping[TableName, Collection[str]] | None = None,
        images: bool = False,
    ) -> "pa.Table":
        """UPDATEs that change a key; with `guids`, all changes of these keys, and of keys that become one of them."""
        ...

    def survey(
        self,
        window: Window,
        *,
        limit: int | None = None,
        max_bytes: int | None = None,
    ) -> Survey:
        """Counts the changes, up to `limit` changes or `max_bytes`."""
        ...

    def unordered(self, window: Window) -> bool:
        """Whether changes of the window may have happened earlier than their place tells: a DELETE WHERE, values of
        rewritten rows, what a trigger changed."""
        ...

    def close(self) -> None:
        """Ends the sessions."""
        ...


class ReaderClass(Protocol):
    """`schema`: of the DbResources, if the source is a database. `largest`: bytes above which a source that can tell
    leaves the contents of a change out."""

    def __call__(
        self,
        info: ConnectionInfo,
        prefix: Prefix,
        schema: str,
        *,
        application: str = "sluice",
        largest: int = LARGEST_CHANGE,
    ) -> ChangeReader: ...


class ChangeSource(Protocol):
    """What an apply needs from a source of changes: the queue of a prefix, over a session in autocommit, unless methods
    say otherwise.
    """

    def take(self, previous: Position | None = None) -> Position:
        """The master's position now, which can end a window that begins at `previous`.

        Raises `DataLost` if `previous` is of another master, or the master went back.
        """
        ...

    def beginning(self, after: int | None) -> Position | None:
        """The position at which a slave without a checkpoint begins; None if an initial update must bring its rows
        first.

        `after`: the number of the change after which it begins, None for the first one. Raises `Terminal` if no
        transaction ends there.
        """
        ...

    def window_end(self, previous: Position, changes: int) -> Position:
        """The end of a window that begins at `previous`: the master's position now, or an earlier state of the master.

        An earlier one only if the source knows such a state after about so many `changes`. Raises as `take`.
        """
        ...

    def nothing_committed(self, since: Position) -> bool:
        """Whether certainly nothing was committed since the position `since`. False where finding out is not cheap."""
        ...

    def secure(self, position: Position) -> list[Position]:
        """Returns when no crash of the master can undo what `position` saw, so that a slave may have it; as `purged`.

        Where the source can record it, `expect_continued` then notices a restore of the master, too.
        """
        ...

    def expect_continued(self, positions: Iterable[Position]) -> None:
        """Raises `DataLost` if the master no longer has what the secured `positions` saw."""
        ...

    def feeds(self) -> list[FeedPosition]:
        """The position up to which each feed has read, by feed and table."""
        ...

    def registered(self) -> list[TableName]:
        """The replicated tables, whether captured already or not."""
        ...

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        """The foreign keys of `tables`."""
        ...

    def definitions(
        self,
        tables: Sequence[TableName],
        seen: Position,
        above: int,
    ) -> dict[TableName, TableShape]:
        """The definition of each table under which its next change after `seen` and the REPL_KEY `above` was captured.

        Without tables that are gone and have left no definition.
        """
        ...

    def compare_definitions(self) -> list[TableName]:
        """Queues an item for each change of a definition that nothing else reported. Returns their tables.

        Returns none where writers or DDL hold the locks that it needs.
        """
        ...

    def definitions_digest(self) -> str:
        """A digest that changes when there are new definitions to compare."""
        ...

    def values_follow(self, table: TableName, seen: Position) -> bool:
        """Whether values of the table's rows, which a change of its definition rewrote, are not queued yet; or never
        will be, as the table was dropped after `seen`."""
        ...

    def reports_definitions(self) -> bool:
        """Whether the master reports changes of definitions, so that none waits for a comparison."""
        ...

    def locate(self, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
        """The block of each of `keys`: how many of `bounds` are at or below it, in the master's order of keys."""
        ...

    def purged(self) -> list[Position]:
        """The positions of the last purge: changes that all of them cover may be deleted."""
        ...


class ChangeQueue(ChangeSource, Protocol):
    """A master that stores its changes in a queue until every slave has them."""

    def captured(self) -> dict[TableName, str | None]:
        """Registered table → the fault of its capture, None for none."""
        ...

    def changes_of(
        self,
        window: Window,
        table: TableName,
        most: int,
    ) -> list[WaitingChange]:
        """The first `most` changes of `table` in the window, in order."""
        ...

    def first_transaction(self, window: Window, left_out: Collection[TableName]) -> list[WaitingTable]:
        """The tables of the window's first transaction that changes any table not in `left_out`; empty for none."""
        ...

    def check_definitions(self) -> list[TableName]:
        """As `compare_definitions`, but waits for the locks."""
        ...

    def joining(self, applied: Position) -> dict[TableName, bool]:
        """Table that joins after `applied` → whether all of its rows follow in the stream."""
        ...

    def row_counts(self, tables: Sequence[TableName]) -> dict[TableName, Rows]:
        """The number of rows of each of `tables`: counted if they are few, otherwise estimated."""
        ...

    def reading(self, table: TableShape, lock_seconds: float | None = None) -> AbstractContextManager[BlockRead]:
        """A transaction with its own snapshot, in which the rows of a block are read.

        `lock_seconds`: it may lock rows, and no statement waits for locks, or keeps them, longer than this. After an
        error in the block the session may be in the middle of a result: close it. Raises `Transient` if the table is
        gone.
        """
        ...

    def position_of_snapshot(self, earlier: Position, previous: Position | None) -> Position:
        """The position of the snapshot of a transaction just begun on the master, good as the end of a window.

        `earlier`: a position taken before the transaction began. `previous`: the window's beginning; None if nothing
        was applied before.
        """
        ...

    def purge(
        self,
        positions: Iterable[Position],
        *,
        batch: int = 20_000,
    ) -> int:
        """Deletes the changes that all of `positions` cover. Returns how many. Each batch is one transaction.

        `positions`: the checkpoints of all slaves; a slave left out loses its changes.
        """
        ...

    def backlog(self) -> Backlog:
        """The size of ITEMS, and which slaves and feeds hold the purge, as last noted."""
        ...

    def waiting(self) -> tuple[int, int]:
        """How many changes are in ITEMS, counted, and about how many bytes they are."""
        ...

    def room(self) -> Room | None:
        """The room for ITEMS; None if the source cannot tell."""
        ...

    def note_holders(self, slaves: Iterable[str]) -> None:
        """Records which `slaves` hold the purge; without any, that it continues."""
        ...

    def note_feed(self, read: FeedPosition) -> None:
        """Stores the position up to which a feed has read: the feed needs covered changes no longer, so they may be
        purged."""
        ...

    def drop_feed(self, feed: str) -> int:
        """Forgets a feed; of how many tables."""
        ...

    def noted(self) -> dict[str, SlaveNote]:
        """What the last purge recorded about the slaves."""
        ...

    def note(self, slaves: Mapping[str, SlaveNote]) -> None:
        """Keeps it for the next purge."""
        ...
