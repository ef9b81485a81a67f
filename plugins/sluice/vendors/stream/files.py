"""The files of a recorded stream, and the places of changes and commits in them.

A file is read once from its beginning to its present end, and indexed by places: one after each commit, and some
within a large transaction. Any change can then be read from the place before it.
"""

import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sluice.model.names import TableName
from sluice.model.table_definition import TableDefinition
from sluice.vendors.stream.errors import Malformed, OtherStream, StreamDamaged, StreamUnreachable
from sluice.vendors.stream.lines import Change, Commit, Header, parse

STEP = 10_000
"""The number of changes of one transaction between two places of the index."""
KEPT = 4
"""The number of files whose indexes are kept."""

_NAME = re.compile(r"[0-9]{19}\.jsonl\Z")
OF_ROWS = tuple(b'{"change":"%b",' % kind for kind in (b"insert", b"update", b"delete"))
"""The beginnings of row changes that are counted without parsing."""


def file_name(after: int) -> str:
    """The name of the file whose changes follow the position `after`."""
    return f"{after:019d}.jsonl"


@dataclass(frozen=True)
class Place:
    """A place between two lines of a file."""

    offset: int
    line: int
    """The number of lines before it."""
    number: int
    """The number of the last change before it."""
    front: int
    """Where the line before it begins."""
    begins: int
    """The position before the transaction at this place, or of the transaction that ended there."""


@dataclass
class Index:
    """The index of one file, up to its last known commit."""

    file: Path
    header: Header
    inode: int
    closed: bool = False
    """Whether the file is finished."""
    definitions: list[tuple[int, TableName, TableDefinition | None]] = field(default_factory=list)
    """The definitions of tables, and the change after which they are valid; None: dropped."""
    end: Commit = field(default_factory=lambda: Commit(0, ""))
    """The last commit; without one, the last commit of the file before."""
    _numbers: "array[int]" = field(default_factory=lambda: array("q"))
    _offsets: "array[int]" = field(default_factory=lambda: array("q"))
    _lines: "array[int]" = field(default_factory=lambda: array("q"))
    _fronts: "array[int]" = field(default_factory=lambda: array("q"))
    _begins: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, place: Place) -> None:
        """Adds a place after all others."""
        self._numbers.append(place.number)
        self._offsets.append(place.offset)
        self._lines.append(place.line)
        self._fronts.append(place.front)
        self._begins.append(place.begins)

    def place(self, number: int) -> Place:
        """The last place before the change that follows the one with this number."""
        at = max(0, bisect_right(self._numbers, number) - 1)
        return Place(self._offsets[at], self._lines[at], self._numbers[at], self._fronts[at], self._begins[at])

    @property
    def last(self) -> Place:
        """The end of the indexed part."""
        return self.place(self._numbers[-1])

    def is_commit(self, number: int) -> bool:
        """Whether a transaction ends with this change."""
        at = bisect_right(self._numbers, number) - 1
        return at >= 0 and self._numbers[at] == self._begins[at] == number

    def commit_between(self, above: int, up_to: int) -> Place | None:
        """The last commit above one number and up to another one, or else the first one above; None without one."""
        at = bisect_right(self._numbers, max(up_to, above)) - 1
        while at >= 0 and self._numbers[at] > above:
            if self._numbers[at] == self._begins[at]:
                return self.place(self._numbers[at])
            at -= 1
        at = bisect_right(self._numbers, above)
        while at < len(self._numbers):
            if self._numbers[at] == self._begins[at]:
                return self.place(self._numbers[at])
            at += 1
        return None

    def commits_back(self) -> Iterator[Commit]:
        """Its commits, the last one first, and at the end what its head says. Raises `OSError`."""
        with self.file.open("rb") as opened:
            for at in range(len(self._numbers) - 1, 0, -1):
                if self._numbers[at] == self._begins[at]:
                    opened.seek(self._fronts[at])
                    line = parsed(self.file, self._lines[at], opened.readline())
                    if isinstance(line, Commit):
                        yield line
        yield Commit(self.header.after, self.header.time, self.header.source)

    def time(self, commit: Place) -> str:
        """When the transaction before a place was committed. Raises `OSError`."""
        if commit.number == self.end.position:
            return self.end.time
        if commit.number == self.header.after:
            return self.header.time
        with self.file.open("rb") as opened:
            opened.seek(commit.front)
            line = parsed(self.file, commit.line, opened.readline())
        return line.time if isinstance(line, Commit) else ""

    def tables(self, number: int) -> dict[TableName, TableDefinition]:
        """The tables of the stream after the change `number`."""
        tables: dict[TableName, TableDefinition] = {}
        for since, table, definition in self.definitions:
            if since > number:
                break
            follow(tables, table, definition)
        return tables


def follow(tables: dict[TableName, TableDefinition], table: TableName, definition: TableDefinition | None) -> None:
    """`tables` after `table` got `definition`, which may have another name; None: it was dropped."""
    tables.pop(table, None)
    if definition is not None:
        tables[definition.table] = definition


class Files:
    """The files in a folder; used by one thread at a time."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._indexes: dict[Path, Index] = {}
        self._stream: str | None = None

    def names(self) -> list[Path]:
        """The names of the files in their order. Raises `StreamUnreachable` without any."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.folder) if _NAME.match(entry.name))
        except OSError as error:
            raise StreamUnreachable(self.folder, f"cannot be read: {error.strerror}") from error
        if not names:
            raise StreamUnreachable(self.folder, "holds no file of a stream")
        return [self.folder / name for name in names]

    def index(self, file: Path, names: list[Path]) -> Index:
        """The index of `file`, one of `names`, up to its present end. Raises `StreamDamaged`, `OtherStream`,
        `StreamUnreachable`."""
        at = names.index(file)
        try:
            with file.open("rb") as opened:
                index = self._indexes.pop(file, None)
                status = os.fstat(opened.fileno())
                if index is None or index.inode != status.st_ino or status.st_size < index.last.offset:
                    index = self._begin(file, opened.readline(), status.st_ino)
                    if index is None:
                        raise StreamUnreachable(self.folder, f"{file.name} has no first line yet")
                if not index.closed:
                    opened.seek(index.last.offset)
                    self._extend(index, opened)
        except OSError as error:
            raise StreamUnreachable(self.folder, f"{file.name} cannot be read: {error.strerror}") from error
        if at + 1 < len(names) and not index.closed:
            following = int(names[at + 1].stem)
            if index.end.position != following:
                raise StreamDamaged(
                    file,
                    index.last.line,
                    f"the last transaction ends at {index.end.position}, but the next file {names[at + 1].name} goes "
                    f"on behind {following}: transactions are missing, or a file between them",
                )
            index.closed = True
        self._indexes[file] = index
        for former in list(self._indexes)[:-KEPT]:
            del self._indexes[former]
        return index

    def containing(self, number: int, names: list[Path]) -> Path:
        """The file with the change that follows the one with this number. Raises `OtherStream`."""
        at = bisect_right([int(name.stem) for name in names], number) - 1
        if at < 0:
            raise OtherStream(
                self.folder, f"the first file is {names[0].name}, but all changes behind {number} are needed"
            )
        return names[at]

    def head(self, file: Path) -> dict[TableName, TableDefinition]:
        """The tables that a file describes before its changes. Raises `StreamDamaged`, `StreamUnreachable`."""
        tables: dict[TableName, TableDefinition] = {}
        try:
            with file.open("rb") as opened:
                for line, raw in enumerate(opened, start=1):
                    described = parsed(file, line, raw) if raw.endswith(b"\n") else None
                    if isinstance(described, TableDefinition):
                        tables[described.table] = described
                    elif not isinstance(described, Header):
                        break
        except OSError as error:
            raise StreamUnreachable(self.folder, f"{file.name} cannot be read: {error.strerror}") from error
        return tables

    def _begin(self, file: Path, line: bytes, inode: int) -> Index | None:
        if not line.endswith(b"\n"):
            return None
        header = parsed(file, 1, line)
        if not isinstance(header, Header):
            raise StreamDamaged(file, 1, 'is no head of a file: {"stream": …, "version": 1, "after": …}')
        if file.name != file_name(header.after):
            raise StreamDamaged(
                file, 1, f"says after {header.after}; then the file's name is {file_name(header.after)}"
            )
        if self._stream is None:
            self._stream = header.stream
        if self._stream != header.stream:
            raise OtherStream(self.folder, f"{file.name} is of the stream {header.stream!r}, not of {self._stream!r}")
        index = Index(file, header, inode, end=Commit(header.after, header.time, header.source))
        index.add(Place(len(line), 1, header.after, 0, header.after))
        return index

    def _extend(self, index: Index, opened: Iterator[bytes]) -> None:
        """Continues reading, up to the last existing commit. What follows it may be continued, or never be finished."""
        place = index.last
        offset, line, number, begins = place.offset, place.line, place.number, place.begins
        waiting: list[tuple[int, TableName, TableDefinition | None]] = []
        places: list[Place] = []
        for raw in opened:
            if not raw.endswith(b"\n"):
                return
            line += 1
            offset += len(raw)
            if raw.startswith(OF_ROWS):
                number += 1  # Checked when it is read.
            else:
                parsed_line = parsed(index.file, line, raw)
                if isinstance(parsed_line, Header):
                    raise StreamDamaged(index.file, line, "is a second head of the file")
                if isinstance(parsed_line, TableDefinition):
                    if number > index.header.after:
                        raise StreamDamaged(
                            index.file,
                            line,
                            f"describes {parsed_line.table} behind changes: write a create line, or a new file",
                        )
                    waiting.append((number, parsed_line.table, parsed_line))
                elif isinstance(parsed_line, Change):
                    number += 1
                    if parsed_line.defines:
                        waiting.append((number, parsed_line.table, parsed_line.definition))
                else:
                    self._commit(index, parsed_line, line, number)
                    index.definitions += waiting
                    for one in places:
                        index.add(one)
                    waiting, places, begins = [], [], number
                    index.add(Place(offset, line, number, offset - len(raw), number))
                    continue
            if number > begins and (number - begins) % STEP == 0:
                places.append(Place(offset, line, number, offset - len(raw), begins))

    @staticmethod
    def _commit(index: Index, commit: Commit, line: int, number: int) -> None:
        if commit.position != number:
            raise StreamDamaged(
                index.file,
                line,
                f"a transaction ends at {commit.position}, but its last change has the number {number}: lines are "
                "missing, or there twice",
            )
        index.end = commit


def parsed(file: Path, line: int, raw: bytes) -> Header | TableDefinition | Change | Commit:
    """Raises `StreamDamaged`."""
    try:
        return parse(raw)
    except Malformed as reason:
        raise StreamDamaged(file, line, str(reason)) from None
