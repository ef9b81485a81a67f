"""The files that a redo proxy serves: below configured roots, read-only.

A link that leads out of the roots is refused, also one that is created while it is opened.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from sluice.redo import blocks


class Refused(Exception):
    """A refused request, with the status of the answer."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


class Attributes(NamedTuple):
    """The attributes of a file."""

    size: int
    block_size: int | None
    """None for a file that is no redo log."""
    modified: float | None
    """Seconds since 1970; None if unknown."""


class Listed(NamedTuple):
    """A file in a folder, or below it."""

    name: str
    """The path below the folder."""
    size: int
    modified: float


class ServedFiles(Protocol):
    """A storage of files. Each method raises `Refused` for files that are not served, `OSError` for failures."""

    def attributes(self, path: str) -> Attributes: ...

    def files(self, path: str) -> Iterator[Listed]:
        """The files of a folder and of those below it."""
        ...

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file; fewer at its end."""
        ...


class Folders:
    """Files of the machine's file system."""

    def __init__(self, roots: Sequence[Path]):
        self.roots = [os.path.realpath(root) for root in roots]

    def attributes(self, path: str) -> Attributes:
        with self._opened(path, stat.S_ISREG, "filePath is no file") as descriptor:
            status = os.fstat(descriptor)
            return Attributes(status.st_size, _block_size(descriptor), status.st_mtime)

    def files(self, path: str) -> Iterator[Listed]:
        """Includes subfolders, as a fast recovery area has a folder for each day. Links are not followed."""
        with self._opened(path, stat.S_ISDIR, "filePath is no folder") as folder:
            for place, _, names, descriptor in os.fwalk(".", dir_fd=folder):
                for name in names:
                    try:
                        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # Deleted meanwhile.
                    if stat.S_ISREG(status.st_mode):
                        yield Listed(os.path.normpath(os.path.join(place, name)), status.st_size, status.st_mtime)

    def read(self, path: str, offset: int, length: int) -> bytes:
        with self._opened(path, stat.S_ISREG, "filePath is no file") as descriptor:
            size = os.fstat(descriptor).st_size
            if offset > size:
                raise Refused(416, f"startOffset is behind the file's end at {size}")
            return os.pread(descriptor, length, offset)

    @contextmanager
    def _opened(self, path: str, wanted: Callable[[int], bool], otherwise: str) -> Iterator[int]:
        """Opens a descriptor of a file or folder."""
        if not path.startswith("/") or "\0" in path:
            raise Refused(400, "filePath is not absolute")
        real = os.path.realpath(path)
        if not any(real == root or real.startswith(f"{root}/") for root in self.roots):
            raise Refused(403, "filePath is not below a root of this proxy")
        try:
            # Opening a pipe would wait for its writer.
            descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            status = 404 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 403
            raise Refused(status, error.strerror or str(error)) from None
        try:
            # A folder of the path may have become a link since.
            if os.path.realpath(f"/proc/self/fd/{descriptor}") != real:
                raise Refused(403, "filePath changed while it was opened")
            if not wanted(os.fstat(descriptor).st_mode):
                raise Refused(400, otherwise)
            yield descriptor
        finally:
            os.close(descriptor)


def _block_size(descriptor: int) -> int | None:
    try:
        return blocks.block_size(os.pread(descriptor, 512, 0))
    except blocks.NotRedo:
        return None
