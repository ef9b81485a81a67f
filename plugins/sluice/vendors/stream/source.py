"""A recorded stream as a source (`sluice.database.vendor.Source`)."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice import whole_files
from sluice.database import xml_images
from sluice.database.change_log import ChangeLogClass, RowsBesideLog
from sluice.database.changes import LARGEST_CHANGE, ChangeQueue, ChangeReader, ChangeSource
from sluice.database.column_types import ColumnTypes
from sluice.database.recorder import LogRecorder, MergeOptions, Merger, Receiver, Recorder, RedoStream
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.database.vendor import RecordedSource
from sluice.model.blocks import Key
from sluice.model.connection import ConnectionInfo
from sluice.model.feed import FeedPosition
from sluice.model.foreign_key import ForeignKey
from sluice.model.key_ranges import located
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.shape import TableShape
from sluice.model.vendors import FIRST
from sluice.vendors.stream.errors import ChangesLost, OtherStream, StreamUnreachable
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.position import StreamPosition
from sluice.vendors.stream.reader import Reader
from sluice.vendors.stream.session import StreamSession, StreamSessions, files_of

# The order of a table's keys on an Oracle master, from their texts alone.
#
# Its sessions compare texts by their bytes (NLS_SORT = BINARY).


def locate(shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
    """For each key, how many of the sorted `bounds` are at or below it."""
    types = vendor_of(FIRST).types
    return located([types.logical(column.type).kind for column in shape.key], bounds, keys)


FEEDS = "feeds"
"""The folder, beside the files, with the positions of feeds."""


@dataclass(frozen=True)
class StreamQueue:
    """The changes of a recorded stream, in the order of their commits. `schema` and `prefix` are not used."""

    session: Session
    prefix: Prefix
    schema: str

    @property
    def files(self) -> Files:
        return files_of(self.session)

    def take(self, previous: Position | None = None) -> StreamPosition:
        """The end of the stream.

        Raises `ChangesLost`, `OtherStream`, `other-source`, `StreamDamaged`, `StreamUnreachable`.
        """
        files = self.files
        names = files.names()
        last = files.index(names[-1], names)
        now = StreamPosition(last.header.stream, last.end.position, last.end.time)
        if previous is not None:
            before = StreamPosition.of(previous)
            if before.stream != now.stream:
                raise OtherStream(
                    files.folder, f"it holds the stream {now.stream!r}; the slave follows {before.stream!r}"
                )
            if before.commit > now.commit:
                reason = f"the stream ends with change {now.commit}; the slave has all up to {before.commit}"
                raise OtherStream(files.folder, reason)
            files.containing(before.commit, names)
            if last.end.lost is not None and before.commit == now.commit:
                raise ChangesLost(files.folder, last.end.lost)
        return now

    def beginning(self, after: int | None) -> StreamPosition:
        """The position after the change `after`, or at the beginning of the first file. Raises `OtherStream`."""
        files = self.files
        names = files.names()
        begins = int(names[0].stem) if after is None else after
        index = files.index(files.containing(begins, names), names)
        if not index.is_commit(begins):
            reason = f"no transaction ends with change {begins}, behind which the configuration begins (master.after)"
            raise OtherStream(files.folder, reason)
        return StreamPosition(index.header.stream, begins, index.time(index.place(begins)))

    def window_end(self, previous: Position, changes: int) -> StreamPosition:
        """The last commit within so many changes, or the next one, in the file where the window begins."""
        now = self.take(previous)
        before = StreamPosition.of(previous)
        if now.commit == before.commit:
            return now
        files = self.files
        names = files.names()
        for file in names[names.index(files.containing(before.commit, names)) :]:
            index = files.index(file, names)
            if not index.is_commit(before.commit) and index.header.after < before.commit:
                reason = f"{file.name} has no transaction that ends with change {before.commit}, as the slave has it"
                raise OtherStream(files.folder, reason)
            if place := index.commit_between(before.commit, before.commit + changes):
                return StreamPosition(now.stream, place.number, index.time(place))
        return now

    def nothing_committed(self, since: Position) -> bool:
        """Always false: reading the folder costs as much as a position."""
        return False

    def expect_continued(self, positions: Iterable[Position]) -> None:
        """By the stream's name and end."""
        for position in positions:
            self.take(position)

    def secure(self, position: Position) -> list[Position]:
        synced(self.session, position)
        return []

    def registered(self) -> list[TableName]:
        """The tables of the stream at its end."""
        files = self.files
        names = files.names()
        for file in reversed(names):
            index = files.index(file, names)
            if index.definitions:
                return sorted(index.tables(index.end.position))
        return []

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        """None: a stream does not have the master's foreign keys."""
        return []

    def definitions(
        self,
        tables: Sequence[TableName],
        seen: Position,
        above: int,
    ) -> dict[TableName, TableShape]:
        """The definitions after the change `above`; for tables that come later, those of the file that brings them."""
        place = max(StreamPosition.of(seen).commit, above)
        files = self.files
        names = files.names()
        shapes: dict[TableName, TableShape] = {}
        at = names.index(files.containing(place, names))
        tables_there = files.index(names[at], names).tables(place)
        for later in [None, *names[at + 1 :]]:
            tables_there = tables_there if later is None else files.head(later)
            shapes = {**{table: tables_there[table].shape for table in tables if table in tables_there}, **shapes}
            if len(shapes) == len(set(tables)):
                break
        return shapes

    def compare_definitions(self) -> list[TableName]:
        """Does nothing: the stream itself has all changes of definitions."""
        return []

    def definitions_digest(self) -> str:
        """Always the same."""
        return ""

    def reports_definitions(self) -> bool:
        """Always true: the recorder has written changes of definitions into the stream."""
        return True

    def values_follow(self, table: TableName, seen: Position) -> bool:
        """Always false: nothing is queued later than it was changed."""
        return False

    def locate(self, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
        """The order of an Oracle master: tables are loaded only beside a stream of redo."""
        return locate(shape, bounds, keys)

    def purged(self) -> list[Position]:
        """None: missing files are noticed where they are needed."""
        return []

    # -- feeds: a file a reader, so that readers do not wait for each other

    def feeds(self) -> list[FeedPosition]:
        """Raises `StreamUnreachable`."""
        found = []
        try:
            for file in sorted((self.files.folder / FEEDS).glob("*.json")):
                values = json.loads(file.read_text("utf-8"))
                position = StreamPosition.parse(values["position"])
                found.append(FeedPosition(values["feed"], values["table"], position))
        except OSError as error:
            raise StreamUnreachable(self.files.folder, f"{FEEDS} cannot be read: {error.strerror}") from error
        return found

    def note_feed(self, read: FeedPosition) -> None:
        """Raises `StreamUnreachable`."""
        folder = self.files.folder / FEEDS
        name = f"{read.feed}.{hashlib.sha256(read.table.encode()).hexdigest()[:32]}"
        values = {"feed": read.feed, "table": read.table, "position": read.position.text()}
        try:
            folder.mkdir(exist_ok=True)
            whole_files.write(folder / f"{name}.json", json.dumps(values), durable=True)
        except OSError as error:
            raise StreamUnreachable(self.files.folder, f"{FEEDS} cannot be written: {error.strerror}") from error


class RecordedStream(RecordedSource):
    """A recorded stream as a source of changes."""

    position = staticmethod(StreamPosition.parse)
    sessions = StreamSessions()
    images = xml_images
    """The codec of ITEMS, in whose form the reader writes rows."""

    def queue(self, session: Session, prefix: Prefix, schema: str) -> ChangeSource:
        return StreamQueue(session, prefix, schema)

    @staticmethod
    def reader(
        info: ConnectionInfo,
        prefix: Prefix,
        schema: str,
        *,
        application: str = "sluice",
        largest: int = LARGEST_CHANGE,
    ) -> ChangeReader:
        """Reads windows of the folder that is the database of `info`, with changes of any size."""
        return Reader(Path(info.database))

    @property
    def types(self) -> ColumnTypes:
        """Definitions in a stream have the types of the default vendor."""
        return vendor_of(FIRST).types

    # What writes streams is imported when it is needed: an apply only reads them.

    def recorder(self, info: ConnectionInfo, prefix: Prefix, schema: str, folder: Path) -> Recorder:
        from sluice.vendors.stream import recorder

        return recorder.Recorder(info, prefix, schema, folder)

    def log_recorder(
        self,
        info: ConnectionInfo,
        prefix: Prefix,
        folder: Path,
        covers: Callable[[TableName], bool],
        change_log: ChangeLogClass,
    ) -> LogRecorder:
        from sluice.vendors.stream import log_recorder

        return log_recorder.LogRecorder(info, prefix, folder, covers, change_log)

    def log_queue(self, session: Session, prefix: Prefix, schema: str, rows: RowsBesideLog) -> ChangeQueue:
        from sluice.vendors.stream.log_queue import LogQueue

        return LogQueue(session, prefix, schema, rows)

    def merger(self, root: Path, folder: Path, prefix: Prefix, options: MergeOptions) -> Merger:
        from sluice.vendors.stream.redo import merger

        return merger.Merger(root, folder, prefix, options)

    def receiver(self, address: tuple[str, int], database: str, folder: Path, begin: int | None) -> Receiver:
        from sluice.vendors.stream.redo import receiver

        return receiver.Receiver(address, database, folder, begin)

    def takeover(self, connection: Session, position: Position) -> Position | None:
        from sluice.vendors.stream.redo import redo_stream

        return redo_stream.position_in_stream(connection, position)

    def redo_stream(self, folder: Path) -> RedoStream:
        from sluice.vendors.stream.redo.redo_stream import Recorded

        return Recorded(folder)


RECORDED = RecordedStream()


def synced(connection: Session, position: Position) -> None:
    """Syncs the file of the position up to there, whoever writes it."""
    assert isinstance(connection, StreamSession)
    files, commit = connection.files, StreamPosition.of(position).commit
    names = files.names()
    if commit == int(names[0].stem):
        return
    index = files.index(files.containing(commit - 1, names), names)
    end = (index.file, index.last.offset)
    if connection.secured == end:
        return
    try:
        whole_files.sync(index.file)
    except OSError as error:
        raise StreamUnreachable(files.folder, f"{index.file.name}: {error.strerror}") from error
    connection.secured = end
