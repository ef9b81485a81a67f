"""The files of one thread's output, which are written as it comes, and merged from."""

import os
import re
from pathlib import Path
from typing import IO

from sluice import whole_files
from sluice.errors import Transient

SPOOL_BYTES = 256 << 20
"""A file that is larger is followed by another one."""
SUFFIX = ".jsonl"
_NAME = re.compile(r"(\d+)\.jsonl\Z")
_CONFIRMED = re.compile(rb'"c_scn":(\d+),"c_idx":(\d+)')
_TAIL = 1 << 20


class SpoolFull(Transient):
    """The folder of a thread cannot be written."""

    def __init__(self, folder: Path, reason: str):
        super().__init__(f"{folder} cannot be written: {reason}. Make room there, or let this account write.")


class Spool:
    """Adds lines to a new file of a thread's folder. Each method that writes raises `SpoolFull`.

    The file is new, so that nothing is read that a process which lost its lease still writes to the former one, nor a
    line that was cut off.
    """

    def __init__(self, folder: Path, file_bytes: int = SPOOL_BYTES):
        self.folder = folder
        self._file_bytes = file_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.durable = last_durable(folder)
            """`c_scn` and `c_idx` of the last line on disk."""
            names = files(folder)
            self._number = int(names[-1].stem) if names else 0
            if not names or names[-1].stat().st_size:
                self._number += 1
            self._file = self._open()
        except OSError as error:
            raise SpoolFull(folder, error.strerror or str(error)) from error
        self._received = self.durable
        self._added = False

    def add(self, line: bytes) -> None:
        """Adds a message, given without its line end."""
        matched = _CONFIRMED.search(line)
        if matched is not None:
            self._received = int(matched[1]), int(matched[2])
        try:
            self._file.write(line)
            self._file.write(b"\n")
        except OSError as error:
            raise SpoolFull(self.folder, error.strerror or str(error)) from error
        self._added = True

    def sync(self) -> tuple[int, int] | None:
        """Syncs everything to disk; returns its place, if anything was added."""
        if not self._added:
            return None
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            if self._file.tell() > self._file_bytes:
                self._file.close()
                self._number += 1
                self._file = self._open()
        except OSError as error:
            raise SpoolFull(self.folder, error.strerror or str(error)) from error
        self.durable, self._added = self._received, False
        return self.durable

    def close(self) -> None:
        self._file.close()

    def _open(self) -> IO[bytes]:
        file = (self.folder / f"{self._number}{SUFFIX}").open("ab")
        whole_files.sync(self.folder)
        return file


def files(folder: Path) -> list[Path]:
    """The files in the order in which they were written."""
    entries = [entry for entry in folder.iterdir() if _NAME.match(entry.name)] if folder.is_dir() else []
    return sorted(entries, key=lambda entry: int(entry.stem))


def last_durable(folder: Path) -> tuple[int, int] | None:
    """`c_scn` and `c_idx` of the last complete line; None without one."""
    for file in reversed(files(folder)):
        with file.open("rb") as opened:
            size, reach = opened.seek(0, os.SEEK_END), _TAIL
            while size:
                opened.seek(max(size - reach, 0))
                tail = opened.read()
                whole = tail[: tail.rfind(b"\n") + 1]
                confirmed = _CONFIRMED.findall(whole)
                if confirmed:
                    return int(confirmed[-1][0]), int(confirmed[-1][1])
                if reach >= size:
                    break
                reach *= 8
    return None


def free(folder: Path, needed: str) -> int:
    """Deletes the files before `needed`, the one from which the merge continues. Returns how many."""
    names = [file.name for file in files(folder)]
    if needed not in names:
        return 0
    gone = names[: names.index(needed)]
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    return len(gone)
