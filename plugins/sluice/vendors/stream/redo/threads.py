"""The output of one redo thread: files in a folder, read as they are written."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sluice.model.vendors import DESCRIPTION_FILE, LOST_FILE
from sluice.vendors.stream.redo.errors import Unfit, output_damaged, output_unreachable
from sluice.vendors.stream.redo.merge import Segment, ThreadId, Transaction
from sluice.vendors.stream.redo.messages import SCHEMA, Payload, head, payload_of, schema_of
from sluice.vendors.stream.redo.types import UNITS

# Keys of tables, and the master's incarnations, from the schema checkpoints of OpenLogReplicator.

_NAME = re.compile(r".+-chkpt-(\d+)\.json\Z")
_PRIMARY = 2
"""`type` of a primary key among the constraints."""


@dataclass(frozen=True)
class SchemaCheckpoint:
    """The data of a schema checkpoint."""

    scn: int
    keys: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """The columns of the primary key, by owner and table; tables without one are missing."""
    tables: frozenset[tuple[str, str]] = frozenset()
    incarnations: tuple[tuple[int, int], ...] = ()
    """RESETLOGS_ID of each incarnation, and its first SCN."""


def newest(folder: Path) -> SchemaCheckpoint | None:
    """The newest one with tables; None without one. Raises `output-damaged`, `output-unreachable`."""
    try:
        names = [(int(matched[1]), entry) for entry in folder.iterdir() if (matched := _NAME.match(entry.name))]
        for scn, file in sorted(names, reverse=True):
            text = file.read_text("utf-8")
            try:
                read = _read(scn, json.loads(text))
            except (ValueError, KeyError, TypeError) as error:
                raise output_damaged(file, 0, f"is no schema checkpoint: {error}") from None
            if read.tables:
                return read
    except OSError as error:
        raise output_unreachable(folder, f"cannot be read: {error.strerror}") from error
    return None


def _read(scn: int, values: dict[str, Any]) -> SchemaCheckpoint:
    users = {user["user"]: user["name"] for user in values.get("sys-user", [])}
    tables = {
        each["obj"]: (users[each["owner"]], each["name"])
        for each in values.get("sys-obj", [])
        if each["type"] == 2 and each["owner"] in users
    }
    columns = {(each["obj"], each["int-col"]): each["name"] for each in values.get("sys-col", [])}
    primary = {each["con"]: each["obj"] for each in values.get("sys-cdef", []) if each["type"] == _PRIMARY}
    keys: dict[tuple[str, str], list[str]] = {}
    for each in values.get("sys-ccol", []):
        obj = primary.get(each["con"])
        if obj in tables:
            keys.setdefault(tables[obj], []).append(columns[obj, each["int-col"]])
    incarnations = tuple((each["resetlogs"], each["resetlogs-scn"]) for each in values.get("incarnations", []))
    return SchemaCheckpoint(
        scn, {table: tuple(names) for table, names in keys.items()}, frozenset(tables.values()), incarnations
    )


_FOLDER = re.compile(r"(\d+)_(\d+)\Z")
_SUFFIX = ".jsonl"
_FIELDS = {"closed": bool, "since": int, "timestamp": str}
_ROWS = frozenset({"c", "u", "d", "ddl"})


class Checkpoint(NamedTuple):
    """A checkpoint message: all commits of the thread below its SCN precede it."""

    scn: int
    time: int | None
    """The time, as in the format."""


@dataclass(frozen=True)
class Description:
    """`thread.json`, written by a person or the supervisor; optional."""

    closed: bool = False
    """Nothing more will be written."""
    since: int | None = None
    """For a thread that joins: the SCN from which on its output is complete."""
    timestamp: str = "ns"
    """The unit of `format.timestamp`."""


@dataclass
class _Open:
    """A transaction whose commit has not come yet."""

    xid: str
    whole: bool
    """Whether its begin was read."""
    segment: Segment
    former: tuple[Segment, ...] = ()
    rows: int = 0
    schemas: set[bytes] = field(default_factory=set)
    ddl: bool = False


def folders(root: Path) -> dict[ThreadId, Path]:
    """The threads' folders. Raises `output-unreachable`."""
    try:
        entries = [entry for entry in root.iterdir() if entry.is_dir()]
    except OSError as error:
        raise output_unreachable(root, f"cannot be read: {error.strerror}") from error
    by_thread = {
        ThreadId(int(named[1]), int(named[2])): entry for entry in entries if (named := _FOLDER.match(entry.name))
    }
    if not by_thread:
        raise output_unreachable(root, "holds no folder of a thread")
    return dict(sorted(by_thread.items()))


class ThreadOutput:
    """Reads one thread's folder from a place on; reports a transaction when its commit has come."""

    def __init__(self, folder: Path, thread: ThreadId, place: tuple[str, int] | None = None):
        """`place`: a file and the place in it from which to continue, from `place`. Raises `output-damaged`,
        `output-unreachable`."""
        self.folder = folder
        self.thread = thread
        self.description = self.described()
        self._file, self._offset = place or ("", 0)
        self._open: _Open | None = None
        self._schemas: dict[bytes, bytes] = {}
        """Each description once, however many transactions have it."""
        self._schema = self._named = b""
        """The description in the last message, parsed and as written."""

    @property
    def place(self) -> tuple[str, int]:
        """The place from which to continue, so that open transactions are read again."""
        if self._open is None:
            return self._file, self._offset
        first = self._open.former[0] if self._open.former else self._open.segment
        return first.file, first.begin

    def checkpoint(self) -> SchemaCheckpoint | None:
        """The newest schema checkpoint. Raises `output-damaged`, `output-unreachable`."""
        return newest(self.folder)

    def poll(self) -> Iterator[Transaction | Checkpoint]:
        """Reads what has come since. Raises `output-damaged`, `output-unreachable`."""
        try:
            names = sorted(
                (entry.name for entry in os.scandir(self.folder) if entry.name.endswith(_SUFFIX)),
                key=lambda name: (len(name), name),
            )
            if self._file and self._file not in names:
                raise output_damaged(
                    self.folder / self._file, self._offset, "is not there any more, and was not read to its end"
                )
            for name in names[names.index(self._file) if self._file else 0 :]:
                if name != self._file:
                    self._next_file(name)
                yield from self._read()
        except OSError as error:
            raise output_unreachable(self.folder, f"cannot be read: {error.strerror}") from error

    def messages(self, transaction: Transaction) -> Iterator[Payload]:
        """Its messages, each once. Raises `output-damaged`, `output-unreachable`."""
        expected = slack = 0
        for segment in transaction.segments:
            file, offset = self.folder / segment.file, segment.begin
            try:
                with file.open("rb") as opened:
                    opened.seek(offset)
                    while offset < segment.end:
                        raw = opened.readline()
                        if not raw:
                            raise output_damaged(file, offset, "ends before what was read of it")
                        try:
                            message = _message(raw)
                        except Unfit as reason:
                            raise output_damaged(file, offset, str(reason)) from None
                        number = message.num if message is not None else None
                        if number is not None and number > expected + slack:
                            raise output_damaged(
                                file, offset, f"has num {number} where {expected} is next: messages are missing"
                            )
                        # A transaction that was cut off may continue with messages that are there already.
                        if message is not None and (number is None or number >= expected):
                            yield message
                            slack = 0 if number is not None else slack + 1
                            expected = number + 1 if number is not None else expected
                        offset += len(raw)
            except OSError as error:
                raise output_unreachable(self.folder, f"{segment.file} cannot be read: {error.strerror}") from error

    def described(self) -> Description:
        """Reads `thread.json`. Raises `output-damaged`, `output-unreachable`."""
        file = self.folder / DESCRIPTION_FILE
        try:
            values = json.loads(file.read_text("utf-8"))
        except FileNotFoundError:
            return Description()
        except OSError as error:
            raise output_unreachable(self.folder, f"{file.name} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise output_damaged(file, 0, f"is no JSON: {error}") from None
        good = isinstance(values, dict) and all(type(value) is _FIELDS.get(name) for name, value in values.items())
        if not good or values.get("timestamp", "ns") not in UNITS:
            raise output_damaged(
                file,
                0,
                f"is {json.dumps(values)[:200]}",
                'Write {"closed": true, "since": SCN, "timestamp": "ns"}, or less',
            )
        return Description(**values)

    def lost(self) -> str | None:
        """Why the thread's next log is lost, if somebody says so. Raises `output-unreachable`."""
        try:
            return (self.folder / LOST_FILE).read_text("utf-8", "replace").strip() or "nobody said why"
        except FileNotFoundError:
            return None
        except OSError as error:
            raise output_unreachable(self.folder, f"{LOST_FILE} cannot be read: {error.strerror}") from error

    def _next_file(self, name: str) -> None:
        self._file, self._offset = name, 0
        if self._open is not None:
            self._open.former = (*self._open.former, self._open.segment)
            self._open.segment = Segment(name, 0, 0)

    def _read(self) -> Iterator[Transaction | Checkpoint]:
        file = self.folder / self._file
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_size < self._offset:
                raise output_damaged(file, self._offset, "is shorter than what was read of it")
            opened.seek(self._offset)
            for raw in opened:
                if not raw.endswith(b"\n"):
                    return
                try:
                    message = self._line(raw)
                except Unfit as reason:
                    raise output_damaged(file, self._offset, str(reason)) from None
                self._offset += len(raw)
                if message is not None:
                    yield message

    def _note_schema(self, raw: bytes, begin: int) -> None:
        """Records the description of the table of a message that begins at this place in its line."""
        assert self._open is not None
        # Usually it is that of the message before.
        if not self._schema or raw.find(self._named, begin) < 0:
            place = schema_of(raw, begin)
            if place is None:
                return
            schema = raw[place[0] : place[1]]
            self._schema, self._named = self._schemas.setdefault(schema, schema), SCHEMA + schema
        self._open.schemas.add(self._schema)

    def _line(self, raw: bytes) -> Transaction | Checkpoint | None:
        seen = head(raw)
        if seen.op == "chkpt":
            return Checkpoint(seen.scn, seen.time)
        begin, end = self._offset, self._offset + len(raw)
        if seen.op == "begin":
            # An open transaction was cut off; it comes again.
            self._open = _Open(seen.xid, True, Segment(self._file, begin, end))
            return None
        if self._open is None or self._open.xid != seen.xid:
            self._open = _Open(seen.xid, False, Segment(self._file, begin, end))
        self._open.segment = Segment(self._file, self._open.segment.begin, end)
        if seen.op in _ROWS:
            self._open.rows += 1
            self._open.ddl |= seen.op == "ddl"
            if seen.op != "ddl":
                self._note_schema(raw, seen.begins)
            return None
        if seen.op != "commit":
            raise Unfit(f"is a message {seen.op!r}, which this release does not know")
        done, self._open = self._open, None
        # Without its begin it can only be the end of one that was complete before OpenLogReplicator restarted.
        segments = (*done.former, done.segment) if done.whole else ()
        schemas = frozenset(done.schemas)
        return Transaction(self.thread, seen.xid, seen.scn, seen.time, done.rows, segments, schemas, done.ddl)


def _message(raw: bytes) -> Payload | None:
    """The message; None for a begin, commit or checkpoint. Raises `Unfit`."""
    payload = payload_of(raw)
    if payload.op not in _ROWS:
        return None
    if not payload.schema:
        raise Unfit("names no table: format.schema must be 7 for OpenLogReplicator")
    return payload
