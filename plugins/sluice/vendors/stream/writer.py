"""Writes a recorded stream into files: whole transactions, each on disk before the next one begins."""

import fcntl
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from sluice import whole_files
from sluice.errors import Terminal, Transient
from sluice.model.names import TableName
from sluice.model.table_definition import TableDefinition
from sluice.vendors.stream.errors import Malformed
from sluice.vendors.stream.files import file_name, follow
from sluice.vendors.stream.lines import Change, Commit, Header, Line, RowChange, items_of, write, write_rows

FILE_BYTES = 256 << 20
"""A file that is larger is followed by another one after its last transaction."""
ROWS = 500
"""The number of row changes that are written at once."""
LOCK = ".recorder"


def recorder_runs(folder: Path) -> Terminal:
    """Another recorder writes to the folder."""
    return Terminal(
        f"{folder}: another recorder writes this stream. End it, or choose another folder.", code="recorder-runs"
    )


def folder_refused(folder: Path, reason: str) -> Transient:
    """The folder cannot be written."""
    return Transient(
        f"{folder} cannot be written: {reason}. Make room there, or let this account write.", code="folder-refused"
    )


def not_recordable(folder: Path, change: Change, reason: str) -> Terminal:
    """A change that a stream cannot have."""
    return Terminal(
        f"{folder}: a {change.action} of {change.table} {reason}. Nothing of its transaction was recorded. Begin a "
        "new stream in another folder.",
        code="not-recordable",
    )


class Writer:
    """Adds transactions to the stream in a folder, after the position `after`; the only writer.

    `tables`: the stream's tables there. Raises `recorder-runs`, `folder-refused`.
    """

    def __init__(
        self,
        folder: Path,
        stream: str,
        after: Commit,
        tables: Mapping[TableName, TableDefinition],
        *,
        file_bytes: int = FILE_BYTES,
    ):
        self.folder = folder
        self.stream = stream
        self.end = after
        self.tables = dict(tables)
        self._file_bytes = file_bytes
        self._file: IO[bytes] | None = None
        self._number = after.position
        self._lock = _locked(folder)
        self._next_file()

    def add(self, changes: Iterable[Change]) -> int:
        """Adds changes of the open transaction. Returns how many. Raises `folder-refused`, `not-recordable`."""
        before = self._number
        for change in changes:
            try:
                items_of(change, self.tables.get(change.table))
            except Malformed as reason:
                raise not_recordable(self.folder, change, str(reason)) from None
            self._add(change)
        return self._number - before

    def add_made(self, changes: Iterable[Change | RowChange]) -> None:
        """The same, for changes that were made from the definitions of their tables, and fit them."""
        rows: list[RowChange] = []
        for change in changes:
            if isinstance(change, RowChange):
                rows.append(change)
                if len(rows) == ROWS:
                    self._add_rows(rows)
                    rows = []
            else:
                self._add_rows(rows)
                rows = []
                self._add(change)
        self._add_rows(rows)

    def describe(self, definitions: Iterable[TableDefinition]) -> None:
        """Adds tables to the stream after the last commit; nothing was added since. Raises `folder-refused`."""
        assert self._number == self.end.position
        self.tables |= {definition.table: definition for definition in definitions}
        self._next_file()

    @property
    def added(self) -> int:
        """How many changes the open transaction has."""
        return self._number - self.end.position

    def commit(self, time: str, source: str | None = None, lost: str | None = None, *, synced: bool = True) -> Commit:
        """Ends the transaction, which is on disk when this returns. Without changes it says that nothing changed.

        `lost`: why later changes of the master are lost. `synced`: false where the recorder can read again what a crash
        of the machine takes away.
        """
        self.end = Commit(self._number, time, source, lost)
        self._write(write(self.end))
        assert self._file is not None
        try:
            self._file.flush()
            size = self._file.tell()
            if synced or size > self._file_bytes:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise folder_refused(self.folder, error.strerror or str(error)) from error
        if size > self._file_bytes:
            self._next_file()
        return self.end

    def close(self) -> None:
        """Discards what was added since the last commit."""
        if self._file is not None:
            self._file.close()
            self._file = None
        os.close(self._lock)

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, change: Change) -> None:
        self._write(write(change))
        self._number += 1
        if change.defines:
            follow(self.tables, change.table, change.definition)

    def _add_rows(self, changes: Sequence[RowChange]) -> None:
        self._write(write_rows(changes))
        self._number += len(changes)

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        try:
            self._file.write(line)
        except OSError as error:
            raise folder_refused(self.folder, error.strerror or str(error)) from error

    def _next_file(self) -> None:
        """Begins a file after the last commit; it gets its name when its head is on disk.

        It replaces a file that begins at the same place and has no change.
        """
        if self._file is not None:
            self._file.close()
        made = self.folder / f".{file_name(self.end.position)}.new"
        # A loss is stated only with a commit.
        self.end = replace(self.end, lost=None)
        header = Header(self.stream, self.end.position, self.end.time, self.end.source)
        head: list[Line] = [header, *self.tables.values()]
        try:
            self._file = made.open("wb")
            self._file.write(b"".join(map(write, head)))
            self._file.flush()
            os.fsync(self._file.fileno())
            made.rename(self.folder / file_name(self.end.position))
            whole_files.sync(self.folder)
        except OSError as error:
            raise folder_refused(self.folder, error.strerror or str(error)) from error


def _locked(folder: Path) -> int:
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise folder_refused(folder, error.strerror or str(error)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise recorder_runs(folder) from None
    return descriptor
