"""Records the changes of a master into a folder, window by window.

A transaction of the stream is a window of the master: its end is a state that the master had, and its changes are in
the order in which they were captured. Each head and commit of the stream has the recorder's position; a recorder that
was killed continues from there, in a new file, without duplicates.
"""

import logging
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from sluice.backoff import Backoff
from sluice.counted import counted
from sluice.database import registry
from sluice.database.changes import LARGEST_CHANGE, ChangeReader, ChangeSource, ChangeTooLarge
from sluice.database.registry import master_of, source_of
from sluice.database.row_images import RowImageCodec
from sluice.database.session import Session
from sluice.errors import DataLost, Terminal, Transient
from sluice.model.change import Action
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position, Window
from sluice.model.purging import lost
from sluice.model.table_definition import TableDefinition
from sluice.vendors.stream.errors import StreamUnreachable
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.lines import Change, Commit
from sluice.vendors.stream.writer import FILE_BYTES, Writer

log = logging.getLogger("sluice.record")

SLICE, SLICE_BYTES = 100_000, 128 << 20
"""The highest number of changes, and of bytes of contents, in memory at once."""
POLL_SECONDS = 0.1
IDLE_SECONDS = 10.0
"""Seconds between two commits which say that nothing has changed."""


def not_recorded(prefix: Prefix, folder: Path) -> DataLost:
    """The master has deleted changes that were not recorded yet."""
    return DataLost(
        f"{prefix}: changes that are not in {folder} yet were purged on the master, because every slave had them. "
        "Begin a new stream in another folder, for slaves that are loaded again.",
        code="not-recorded",
    )


def recorded_elsewhere(folder: Path) -> Terminal:
    """The stream in the folder was written by another program."""
    return Terminal(
        f"{folder}: the stream there does not say up to where the master was recorded, so it cannot be gone on "
        "with. Choose another folder.",
        code="recorded-elsewhere",
    )


class Recorder:
    """Records the changes of one master. `schema`: the schema of the replication's resources there."""

    def __init__(
        self, info: ConnectionInfo, prefix: Prefix, schema: str, folder: Path, *, file_bytes: int = FILE_BYTES
    ):
        self.info = info
        self.prefix = prefix
        self.schema = schema
        self.folder = folder
        self.recorded = 0
        """The number of changes since this recorder began."""
        self._source = source_of(info.vendor)
        self._file_bytes = file_bytes
        self._application = f"sluice record {prefix}"

    def run(self, stop: threading.Event) -> None:
        """Records until `stop` is set; waits for the end of outages. Raises `Terminal`."""
        backoff = Backoff()
        while not stop.is_set():
            try:
                for _ in self._windows(stop):
                    backoff.reset()
            except Transient as outage:
                pause = backoff.next()
                log.warning("%s: %s Next try in %.2g s.", self.prefix, outage, pause)
                stop.wait(pause)

    def record_once(self) -> Commit:
        """Records everything that the master has now. Returns the end of the stream. Raises `Terminal`, `Transient`."""
        with self._session() as session, self._reader() as reader, self._begin(session) as (writer, seen):
            self._window(session, reader, writer, seen)
            return writer.end

    def _windows(self, stop: threading.Event) -> Iterator[Position]:
        with self._session() as session, self._reader() as reader, self._begin(session) as (writer, seen):
            reported_at = time.monotonic()
            while not stop.is_set():
                end = writer.end.position
                idle = time.monotonic() - reported_at < IDLE_SECONDS
                seen = self._window(session, reader, writer, seen, unless_empty=idle)
                if writer.end.position == end:
                    stop.wait(POLL_SECONDS)
                if not idle or writer.end.position != end:
                    reported_at = time.monotonic()
                yield seen

    def _session(self) -> Session:
        connect = self._source.sessions.connect
        return connect(self.info, application=self._application, autocommit=True)

    def _queue(self, session: Session) -> ChangeSource:
        return self._source.queue(session, self.prefix, self.schema)

    def _reader(self) -> ChangeReader:
        return self._source.reader(self.info, self.prefix, self.schema, application=self._application)

    def _begin(self, session: Session) -> "_Begun":
        """The stream, new or continued, and the master's position up to which it has all changes."""
        master_of(self.info.vendor).capture(session, self.prefix, self.schema).require()
        queue = self._queue(session)
        self.folder.mkdir(parents=True, exist_ok=True)
        end, stream = end_of(self.folder, self.prefix)
        if end is None:
            now = queue.take()
            queue.secure(now)
            end, seen = Commit(0, now.time, now.text()), now
        else:
            assert end.source is not None
            seen = registry.parse_position(end.source)
            queue.expect_continued([seen])
        if lost(seen, queue.purged()):
            raise not_recorded(self.prefix, self.folder)
        tables = queue.registered()
        shapes = queue.definitions(tables, seen, 0)
        definitions = {table: TableDefinition(shape) for table, shape in shapes.items()}
        return _Begun(Writer(self.folder, stream, end, definitions, file_bytes=self._file_bytes), seen)

    def _window(
        self, session: Session, reader: ChangeReader, writer: Writer, seen: Position, *, unless_empty: bool = False
    ) -> Position:
        """Records what follows `seen`. `unless_empty`: writes nothing if there is nothing."""
        queue = self._queue(session)
        target = queue.window_end(seen, SLICE)
        number, window = 0, Window(seen, target)
        for items in _slices(reader, window):
            number += writer.add(_changes(items, self._source.images))
        if not number and unless_empty:
            return seen
        # The stream must never have what a crash of the master could undo.
        queue.secure(target)
        # A read during a purge of ITEMS may have missed deleted changes.
        if lost(seen, queue.purged()):
            raise not_recorded(self.prefix, self.folder)
        writer.commit(target.time, target.text())
        self.recorded += number
        if number:
            log.info("%s: %s recorded, up to %d", self.prefix, counted(number, "change"), writer.end.position)
        return target


class _Begun:
    """A writer that is closed at the end, and the position from which recording continues."""

    def __init__(self, writer: Writer, seen: Position):
        self.writer = writer
        self.seen = seen

    def __enter__(self) -> tuple[Writer, Position]:
        return self.writer, self.seen

    def __exit__(self, *_: object) -> None:
        self.writer.close()


def end_of(folder: Path, prefix: Prefix) -> tuple[Commit | None, str]:
    """The end of the stream in a folder, None for a new one; and its name. Raises `recorded-elsewhere`."""
    files = Files(folder)
    with suppress(StreamUnreachable):
        names = files.names()
        last = files.index(names[-1], names)
        if last.end.source is None:
            raise recorded_elsewhere(folder)
        return last.end, last.header.stream
    return None, f"{prefix}{secrets.token_hex(4)}"


def _slices(reader: ChangeReader, window: Window) -> Iterator[pa.Table]:
    above = 0
    while True:
        survey = reader.survey(window.between(above), limit=SLICE, max_bytes=SLICE_BYTES)
        if not survey.changes:
            return
        for change in survey.oversized:
            raise ChangeTooLarge(change, LARGEST_CHANGE)
        yield reader.items(window.between(above, survey.last), images=True)
        if not survey.more or survey.last is None:
            return
        above = survey.last


def _changes(items: pa.Table, images: RowImageCodec) -> Iterable[Change]:
    for batch in items.to_batches(max_chunksize=1_000):
        for item in batch.to_pylist():
            yield _change(item, images)


def _change(item: Mapping[str, Any], images: RowImageCodec) -> Change:
    """Raises `Terminal` for a source that cannot be recorded."""
    action, table = Action(item["action"]), TableName(item["schema"], item["table"])
    new, old = item["content"], item["oldcontent"]
    match action:
        case Action.INSERT:
            return Change(action, table, new=images.row(new))
        case Action.UPDATE:
            return Change(action, table, new=images.row(new), old=None if old is None else images.row(old))
        case Action.DELETE:
            return Change(action, table, old=None if old is None else images.row(old))
        case Action.DELETE_WHERE:
            return Change(action, table, bound=images.bound(new))
        case Action.DIFFER:
            return Change(action, table, reason=new or "")
        case Action.TRUNCATE:
            return Change(action, table)
    now, former = (images.definition(text) if text is not None else None for text in (new, old))
    return Change(action, table, definition=now if action is not Action.DROP else None, former=former)
