"""Reading a job's log as it grows, across rotations and across restarts of the reader.

The place reached is kept beside the record, so that a line goes into the task log once, whichever
triggerer copies it.
"""

import contextlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from sluice.airflow.job import file_of, read_values, write_private
from sluice.airflow.jobs import log_of

CHUNK_BYTES = 256_000
"""At most so much at a time: what is more comes with the next look."""


@dataclass(frozen=True)
class Cursor:
    """A place in a log that is renamed when it is full: the file by its inode, and the byte in it."""

    inode: int = 0
    offset: int = 0


class JobOutput:
    """What a job says, from where the last reader stopped."""

    def __init__(self, job_id: str):
        self.path = log_of(job_id)
        self._file = file_of(job_id, "cursor")
        values = read_values(self._file)
        self.cursor = Cursor(**values) if values else Cursor()

    def read(self, *, rest: bool = False) -> list[str]:
        """New whole lines, oldest first; `rest` adds a last line that has no end. `keep` afterwards."""
        path, inode = self._place()
        if path is None:
            return []
        offset = self.cursor.offset if inode == self.cursor.inode else 0
        try:
            with open(path, "rb") as file:
                file.seek(offset)
                chunk = file.read(CHUNK_BYTES)
        except OSError:
            return []
        end = chunk.rfind(b"\n") + 1
        full, old = len(chunk) == CHUNK_BYTES, path != self.path
        if (rest and not full) or (end == 0 and (full or old)):
            end = len(chunk)
        if end == 0 and path != self.path:
            # The rotated file is read to its end: go on with the one after it.
            self.cursor = Cursor(self._next_inode(path), 0)
            return self.read(rest=rest)
        self.cursor = Cursor(inode, offset + end)
        return [line.rstrip("\r") for line in chunk[:end].decode(errors="replace").split("\n") if line.strip()]

    def keep(self) -> None:
        """Remembers the place reached."""
        with contextlib.suppress(OSError):
            write_private(self._file, asdict(self.cursor))

    def _files(self) -> list[Path]:
        """The log and its rotated forms, newest first."""
        return [self.path, *(self.path.with_name(f"{self.path.name}.{number}") for number in range(1, 10))]

    def _place(self) -> tuple[Path | None, int]:
        """The file to read: the one the cursor names, else the newest."""
        inodes = [(file, inode) for file in self._files() if (inode := _inode(file))]
        for file, inode in inodes:
            if inode == self.cursor.inode:
                return file, inode
        return inodes[0] if inodes else (None, 0)

    def _next_inode(self, path: Path) -> int:
        files = self._files()
        return _inode(files[files.index(path) - 1])


def last_lines(job_id: str, count: int) -> list[str]:
    """The end of what a job said."""
    try:
        with open(log_of(job_id), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 400 * count))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if line.strip()][-count:]


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
