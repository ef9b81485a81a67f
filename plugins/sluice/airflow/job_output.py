"""Reads a job's log while it grows, across rotations and restarts of the reader.

The reader's position is kept beside the job's record, so that a line is copied to the task log once, by any triggerer.
"""

import contextlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from sluice.airflow.job import file_of, log_of, read_values, write_values

CHUNK_BYTES = 256_000
"""Bytes that one call of `read` takes at most."""


@dataclass(frozen=True)
class Cursor:
    """A position in a rotated log: inode of the file, and offset in it."""

    inode: int = 0
    offset: int = 0


class JobOutput:
    """The log of a job, from the position of the last reader."""

    def __init__(self, job_id: str):
        self.path = log_of(job_id)
        self._file = file_of(job_id, "cursor")
        values = read_values(self._file)
        self.cursor = Cursor(**values) if values else Cursor()

    def read(self, *, rest: bool = False) -> list[str]:
        """New whole lines, oldest first. `rest` adds an unfinished last line. Call `keep` afterwards."""
        path, inode = self._path_and_inode()
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
            # The rotated file is read to its end: continue with the next one.
            self.cursor = Cursor(self._next_inode(path), 0)
            return self.read(rest=rest)
        self.cursor = Cursor(inode, offset + end)
        return [line.rstrip("\r") for line in chunk[:end].decode(errors="replace").split("\n") if line.strip()]

    def keep(self) -> None:
        """Stores the position."""
        with contextlib.suppress(OSError):
            write_values(self._file, asdict(self.cursor))

    def _files(self) -> list[Path]:
        """The log and its rotated files, newest first."""
        return [self.path, *(self.path.with_name(f"{self.path.name}.{number}") for number in range(1, 10))]

    def _path_and_inode(self) -> tuple[Path | None, int]:
        """File to read and its inode: the file of the cursor, else the newest."""
        inodes = [(file, inode) for file in self._files() if (inode := _inode(file))]
        for file, inode in inodes:
            if inode == self.cursor.inode:
                return file, inode
        return inodes[0] if inodes else (None, 0)

    def _next_inode(self, path: Path) -> int:
        files = self._files()
        return _inode(files[files.index(path) - 1])


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
