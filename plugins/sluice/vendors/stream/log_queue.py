"""The changes of a master whose log is recorded, and its rows beside them.

The log runs ahead of what the tables show, and no server says at which place of its log a snapshot is. So rows are read
between two places: one that the snapshot certainly shows, and the end of the log once the snapshot is there. Rows that
changed in between are taken from the log. Then the rows are as of the later place, which is the marker of their block.
A loader has committed its block as begun before that, and an apply has read nothing behind the log's end. So the
marker covers what an apply dropped of a planned block (`sluice.model.blocks`).
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from sluice.database import xml_images
from sluice.database.change_log import LogPlace, RowsBesideLog
from sluice.database.changes import ChangeQueue, WaitingChange, WaitingTable
from sluice.database.errors import UndefinedTable
from sluice.database.rows import TableGone, table_changed
from sluice.errors import Terminal, Transient
from sluice.model.blocks import Key
from sluice.model.change import ROW_ACTIONS, Action
from sluice.model.foreign_key import ForeignKey
from sluice.model.items_limit import Room
from sluice.model.joining import Rows
from sluice.model.names import TableName
from sluice.model.position import Position, Window
from sluice.model.purging import Backlog, SlaveNote
from sluice.model.shape import TableShape
from sluice.vendors.stream.errors import ChangesLost
from sluice.vendors.stream.log_recorder import ASKED, place_of
from sluice.vendors.stream.position import StreamPosition
from sluice.vendors.stream.reader import Reader
from sluice.vendors.stream.source import StreamQueue

BEHIND_SECONDS = 30.0
"""How long the recorder is awaited."""
PINNED_SECONDS = 10.0
"""How long a snapshot is tried for, around which nothing is committed."""
LOOK_SECONDS = 0.005
TRIES = 20
"""How often a snapshot of a table is begun, while it changes in a way that rows alone do not tell."""
Image = Mapping[str, str | None]


@dataclass(frozen=True)
class Block:
    """See `sluice.database.rows.BlockRead`."""

    marker: Position
    shape: TableShape
    rows: RowsBesideLog
    locked: bool = False

    @property
    def open(self) -> bool:
        return True

    def end(self) -> None:
        self.rows.leave()


@dataclass(frozen=True)
class LogQueue(StreamQueue, ChangeQueue):
    """The recorded stream, with the tables of its master. `session`: on the stream's folder."""

    rows: RowsBesideLog

    def take(self, previous: Position | None = None) -> StreamPosition:
        """The end of the stream, once it has the log so far. Raises `recorder-behind` as well."""
        self._await(self.rows.end())
        return super().take(previous)

    # -- rows

    @contextmanager
    def reading(self, table: TableShape, lock_seconds: float | None = None) -> Iterator[Block]:
        """Raises `TableGone`, `table-changed`, `recorder-behind`, `no-row-locks`, `ChangesLost`."""
        rows = self.rows
        if lock_seconds is not None:
            raise Terminal(
                f"{rows.server}: with capture: binlog, blocks are read without locks. Take `initial.read` out.",
                code="no-row-locks",
            )
        self._await(rows.end())  # before a snapshot keeps old rows on the master
        try:
            for _ in range(TRIES):
                if (block := self._begun(table)) is not None:
                    break
                rows.leave()
            else:
                raise table_changed(rows.server, table.table, "changed while a snapshot of it began")
            yield block
        finally:
            rows.leave()

    def _begun(self, table: TableShape) -> Block | None:
        """None if the table changed meanwhile in a way that rows alone do not tell."""
        rows, name = self.rows, table.table
        try:
            span = rows.begin(name)
        except UndefinedTable as gone:
            raise TableGone(rows.server, table) from gone
        shape = rows.shape(name)
        if shape is None:
            raise TableGone(rows.server, table)
        marker = self._await(span.ended)
        changed = self._changed(shape, Window(self._last(span.shown), marker))
        if changed is None:
            return None
        rows.correct(changed)
        return Block(marker, shape, rows)

    def position_of_snapshot(self, earlier: Position, previous: Position | None) -> Position:
        """The session gets another snapshot, one with the same changes before it in the log and before its place."""
        del earlier
        rows, until = self.rows, time.monotonic() + PINNED_SECONDS
        while time.monotonic() < until:
            rows.leave()
            span = rows.begin()
            self._await(span.ended)
            shown = self._last(span.shown)
            # An apply may already have what no snapshot shows yet.
            if shown == self._last(span.logged) and (previous is None or shown.covers_all_of(previous)):
                return shown
            time.sleep(LOOK_SECONDS)
        raise Transient(
            f"{rows.server}: in {PINNED_SECONDS:.0f} s there was no moment without a commit in which a snapshot could "
            "begin. It is tried again; at a quieter time it succeeds at once.",
            code="snapshot-not-pinned",
        )

    def _await(self, ended: Callable[[LogPlace], bool]) -> StreamPosition:
        """The end of the stream, once it has the log so far."""
        files, began = self.files, time.monotonic()
        while True:
            names = files.names()
            last = files.index(names[-1], names)
            if last.end.lost is not None:
                raise ChangesLost(files.folder, last.end.lost)
            end = StreamPosition(last.header.stream, last.end.position, last.end.time)
            if ended(place_of(files.folder, last.end.source)):
                return end
            if time.monotonic() - began > BEHIND_SECONDS:
                raise Transient(
                    f"{self.rows.server}: its log has more than {end}, and in {BEHIND_SECONDS:.0f} s the recorder did "
                    "not get there. Rows are read when it did: look at the run of the DAG capture_redo, or start it.",
                    code="recorder-behind",
                )
            with suppress(OSError):
                (files.folder / ASKED).touch()
            time.sleep(LOOK_SECONDS)

    def _last(self, within: Callable[[LogPlace], bool]) -> StreamPosition:
        """The last transaction of the stream whose place is `within` a part of the log."""
        for position, place in self._back():
            if within(place):
                return position
        reason = "the stream begins behind what the tables show"
        raise Transient(f"{self.files.folder}: {reason}.", code="stream-begins-later")

    def _back(self) -> Iterator[tuple[StreamPosition, LogPlace]]:
        """The transactions of the stream, the last one first, with their places."""
        files = self.files
        names = files.names()
        for file in reversed(names):
            index = files.index(file, names)
            for commit in index.commits_back():
                yield (
                    StreamPosition(index.header.stream, commit.position, commit.time),
                    place_of(files.folder, commit.source),
                )

    def _changed(self, shape: TableShape, window: Window) -> dict[Key, Image | None] | None:
        """The last row of each key that changes in the window; None if rows alone do not tell."""
        table, names = shape.table, {column.name for column in shape.replicated}
        key = [column.name for column in shape.key]
        changed: dict[Key, Image | None] = {}
        for action, content, oldcontent in self._of(window, table):
            if action not in ROW_ACTIONS or not key:
                return None  # an ALTER has definitions in place of rows
            new = xml_images.row(content) if content and action is not Action.DELETE else None
            old = {**(new or {}), **xml_images.row(oldcontent)} if oldcontent else new
            if (new or old or {}).keys() != names:
                return None
            for row, left in ((old, None), (new, new)):
                if row is not None:
                    changed[tuple(row[name] or "" for name in key)] = left
        return changed

    def _of(self, window: Window, table: TableName) -> Iterator[WaitingChange]:
        return Reader(self.files.folder, self.files).of_table(window, table)

    def locate(self, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
        return self.rows.locate(shape, bounds, keys)

    # -- changes and definitions

    def captured(self) -> dict[TableName, str | None]:
        return dict.fromkeys(self.registered())

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        return self.rows.foreign_keys(tables)

    def row_counts(self, tables: Sequence[TableName]) -> dict[TableName, Rows]:
        return self.rows.row_counts(tables)

    def joining(self, applied: Position) -> dict[TableName, bool]:
        """None: a table that is created comes with all of its rows."""
        return {}

    def check_definitions(self) -> list[TableName]:
        return []

    def changes_of(self, window: Window, table: TableName, most: int) -> list[WaitingChange]:
        changes = self._of(window, table)
        return [change for _, change in zip(range(most), changes, strict=False)]

    def first_transaction(self, window: Window, left_out: Collection[TableName]) -> list[WaitingTable]:
        found: dict[TableName, Counter[str]] = {}
        first: int | None = None
        for item in Reader(self.files.folder, self.files).all_of(window):
            table = TableName(item.schema, item.table)
            if table in left_out and first is None:
                continue
            if first not in (None, item.transaction):
                break
            first = item.transaction
            found.setdefault(table, Counter())[item.action] += 1
        return [
            WaitingTable(table, actions.total(), tuple(sorted(actions))) for table, actions in sorted(found.items())
        ]

    # -- what a queue on the master has: there is none

    def purge(self, positions: Iterable[Position], *, batch: int = 20_000) -> int:
        return 0

    def backlog(self) -> Backlog:
        return Backlog(0, 0)

    def waiting(self) -> tuple[int, int]:
        return 0, 0

    def room(self) -> Room | None:
        return None

    def note_holders(self, slaves: Iterable[str]) -> None:
        """Nothing is held."""

    def drop_feed(self, feed: str) -> int:
        return 0

    def noted(self) -> dict[str, SlaveNote]:
        return {}

    def note(self, slaves: Mapping[str, SlaveNote]) -> None:
        """Nothing is purged."""
