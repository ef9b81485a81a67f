"""Records a database's log into a folder: a transaction of the stream is one of the master.

Each head and commit of the stream has the place in the log, so that a recorder that was killed continues there. Slaves
sync the file before they have what is in it; so a commit is not synced here, and what a crash of this machine takes
away is read again.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from sluice.backoff import Backoff
from sluice.database.change_log import ChangeLog, ChangeLogClass, LogPlace, LogUnreadable, Transaction
from sluice.database.column_types import LogicalColumn
from sluice.database.registry import vendor_of
from sluice.errors import Transient
from sluice.model.connection import ConnectionInfo
from sluice.model.logical_type import ColumnType
from sluice.model.names import Prefix, TableName
from sluice.model.vendors import FIRST
from sluice.vendors.stream.errors import ChangesLost
from sluice.vendors.stream.lines import Commit
from sluice.vendors.stream.log_definitions import LogDefinitions, Remembered
from sluice.vendors.stream.recorder import (
    IDLE_SECONDS,
    end_of,
    recorded_elsewhere,
)
from sluice.vendors.stream.session import StreamSession
from sluice.vendors.stream.writer import FILE_BYTES, Writer

log = logging.getLogger("sluice.record")

KIND = "log"
"""What the source of a commit says of itself."""
ASKED = ".asked"
"""A file in the folder that a reader of the master's rows touches to have the stream's end at the log's."""
LOOK_SECONDS = 0.05
"""The shortest time between two commits without changes."""


class LogRecorder:
    """See `sluice.database.recorder.Recorder`. `wanted`: which tables are recorded."""

    def __init__(
        self,
        info: ConnectionInfo,
        prefix: Prefix,
        folder: Path,
        covers: Callable[[TableName], bool],
        change_log: ChangeLogClass,
        *,
        file_bytes: int = FILE_BYTES,
    ):
        self.info, self.prefix, self.folder = info, prefix, folder
        self.recorded = 0
        self.place: LogPlace | None = None
        """Up to where the log is recorded; None before the first connection."""
        self.current_as_of = 0.0
        """All that was committed by then is recorded; in seconds since the epoch."""
        self.kept_seconds: float | None = None
        """After so long the server deletes a file of its log; None: never, or it is not known."""
        self.outage = ""
        """Why nothing is recorded just now."""
        self._wanted, self._log, self._file_bytes = covers, change_log, file_bytes

    def run(self, stop: threading.Event) -> None:
        backoff = Backoff()
        while not stop.is_set():
            before = self.recorded
            try:
                self._record(stop, waits=True)
            except Transient as outage:
                if self.recorded != before:
                    backoff.reset()
                pause = backoff.next()
                log.warning("%s: %s Next try in %.2g s.", self.prefix, outage, pause)
                self.outage = str(outage)
                stop.wait(pause)

    def record_once(self) -> Commit:
        """Records everything that the log has now. Returns the end of the stream. Raises `Terminal`, `Transient`."""
        return self._record(threading.Event(), waits=False)

    def _record(self, stop: threading.Event, *, waits: bool) -> Commit:
        application = f"sluice record {self.prefix} {self.folder}"
        opened = self._log(self.info, self._wanted, application=application)
        with opened as reader, closing(self._begin(reader)) as recording:
            self.kept_seconds = reader.kept_seconds()
            try:
                for transaction in reader.read(recording.place, waits=waits):
                    if transaction is None:
                        recording.describe(reader)
                        recording.rest(reader.clock)
                        self.current_as_of = time.time()
                    else:
                        self.recorded += recording.add(transaction)
                        self.current_as_of = min(datetime.fromisoformat(transaction.time).timestamp(), time.time())
                    self.place, self.outage = recording.place, ""
                    if stop.is_set():
                        break
            except LogUnreadable as lost:
                recording.lost(lost.reason)
                raise
            recording.describe(reader)
            recording.rest(reader.clock, at_once=True)
            return recording.writer.end

    def _begin(self, reader: ChangeLog) -> "_Recording":
        """The stream, new or continued. Raises `ChangesLost`, `recorded-elsewhere`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        end, stream = end_of(self.folder, self.prefix)
        # Later such tables differ from then on, and the others continue.
        reader.expect_fit(tables=end is None)
        if end is None:
            place = reader.end()
            definitions = LogDefinitions({}, _types(self.folder))
            tables = {logged.table: definitions.define(logged) for logged in reader.tables()}
            definitions.tables.update(tables)
            end = Commit(0, _text(reader.clock()), _source(place, definitions.remembered))
        else:
            if end.lost is not None:
                raise ChangesLost(self.folder, end.lost)
            place, remembered = place_of(self.folder, end.source), Remembered.of(json.loads(end.source or ""))
            session = StreamSession(self.folder)
            names = session.files.names()
            tables = session.files.index(names[-1], names).tables(end.position)
            definitions = LogDefinitions(tables, _types(self.folder), remembered)
        writer = Writer(self.folder, stream, end, definitions.tables, file_bytes=self._file_bytes)
        # A head without a commit describes nothing yet.
        writer.commit(end.time, end.source)
        return _Recording(writer, definitions, place)


def place_of(folder: Path, source: str | None) -> LogPlace:
    """The place in the log of a commit. Raises `recorded-elsewhere`."""
    try:
        values = json.loads(source or "")
        if values.get("kind") != KIND:
            raise recorded_elsewhere(folder)
        return LogPlace(**values["place"])
    except (ValueError, TypeError, KeyError, AttributeError):
        raise recorded_elsewhere(folder) from None


class _Recording:
    """A writer, and the place in the log up to which it has everything."""

    def __init__(self, writer: Writer, definitions: LogDefinitions, place: LogPlace):
        self.writer, self.definitions, self.place = writer, definitions, place
        self._written = place
        self._wrote_at = time.monotonic()
        self._asked = 0
        """When the file of that name was last confirmed."""

    def add(self, transaction: Transaction) -> int:
        """Writes a transaction; how many changes it has."""
        for part in transaction.parts:
            self.writer.add_made(self.definitions.changes(part))
        self.place = transaction.place
        if added := self.writer.added:
            self._commit(min(max(transaction.time, self.writer.end.time), _text(datetime.now(UTC))))
            return added
        if self._due():
            self._commit(min(max(transaction.time, self.writer.end.time), _text(datetime.now(UTC))))
        return 0

    def describe(self, log: ChangeLog) -> None:
        """All that the log has is recorded: tables that were altered need not wait for their next row."""
        if awaiting := self.definitions.awaiting:
            self.writer.add_made(self.definitions.described(log.described(awaiting, self.place)))
            if self.writer.added:
                self._commit(_text(log.clock()))

    def rest(self, clock: Callable[[], datetime], *, at_once: bool = False) -> None:
        """All that the log has is recorded: says so from time to time, if nothing else was written."""
        if self._due() or (at_once and self.place != self._written):
            self._commit(_text(clock()))

    def _due(self) -> bool:
        """Whether the stream should say how far it is, although nothing changed: rarely, or when it was asked."""
        since = time.monotonic() - self._wrote_at
        if since >= IDLE_SECONDS:
            return True
        if self.place == self._written or since < LOOK_SECONDS:
            return False
        try:
            asked = (self.writer.folder / ASKED).stat().st_mtime_ns
        except OSError:
            return False
        if asked == self._asked:
            return False
        self._asked = asked
        return True

    def lost(self, reason: str) -> None:
        """Ends the stream: slaves apply what it has, and become INCONSISTENT."""
        self.writer.commit(self.writer.end.time, self.writer.end.source, lost=reason)

    def close(self) -> None:
        self.writer.close()

    def _commit(self, moment: str) -> None:
        self.writer.commit(moment, _source(self.place, self.definitions.remembered), synced=False)
        self._written, self._wrote_at = self.place, time.monotonic()


def _source(place: LogPlace, remembered: Remembered) -> str:
    return json.dumps({"kind": KIND, "place": asdict(place), **remembered.values()}, separators=(",", ":"))


def _text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _types(folder: Path) -> Callable[[Sequence[LogicalColumn]], Sequence[ColumnType]]:
    types, session = vendor_of(FIRST).types, StreamSession(folder)
    return lambda columns: types.made_of(session, columns)
