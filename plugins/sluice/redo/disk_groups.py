"""Redo logs in disk groups, for a redo proxy, which generates the first block, because it cannot be read there."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sluice.database.errors import DatabaseError
from sluice.database.redo_files import DiskGroups
from sluice.errors import Transient
from sluice.redo import blocks
from sluice.redo.proxy import Attributes, Listed, Refused, ServedFiles

_PATH = re.compile(r"\+\w+(?:/[\w.$#-]+)*")


class ServedDiskGroups(ServedFiles):
    """`roots`: `+GROUP`, or a folder in one."""

    def __init__(self, roots: Sequence[str], disks: DiskGroups):
        self._roots = [root.rstrip("/").upper() for root in roots]
        self._disks = disks

    def attributes(self, path: str) -> Attributes:
        self._expect_allowed(path)
        with _refusals():
            extent = self._disks.extent(path)
        return Attributes((extent.blocks + 1) * extent.block_size, extent.block_size, None)

    def files(self, path: str) -> Iterator[Listed]:
        """Only files with the block size of a redo log: data files are there as well."""
        self._expect_allowed(path)
        folder = path.rstrip("/").upper() + "/"
        with _refusals():
            entries = self._disks.files(path.removeprefix("+").partition("/")[0].upper())
        for file in entries:
            if file.path.upper().startswith(folder) and file.block_size in blocks.SIZES:
                yield Listed(file.path[len(folder) :], file.size, file.modified)

    def read(self, path: str, offset: int, length: int) -> bytes:
        self._expect_allowed(path)
        with _refusals():
            extent = self._disks.extent(path)
            size = extent.block_size
            if size not in blocks.SIZES:
                raise Refused(400, f"filePath is no redo log: its blocks have {size} bytes")
            end = min(offset + length, (extent.blocks + 1) * size)
            if offset > (extent.blocks + 1) * size:
                raise Refused(416, f"startOffset is behind the file's end at {(extent.blocks + 1) * size}")
            first, last = offset // size, -(-end // size)
            content = blocks.first_block(size, extent.blocks) if first == 0 and end else b""
            if last > max(first, 1):
                content += self._disks.read(path, max(first, 1), last - max(first, 1))
        return content[offset - first * size : end - first * size]

    def _expect_allowed(self, path: str) -> None:
        if not _PATH.fullmatch(path.rstrip("/")) or "/.." in path or "/./" in path:
            raise Refused(400, "filePath is none of a disk group: write +GROUP/folder/file")
        given = path.rstrip("/").upper()
        if not any(given == root or given.startswith(f"{root}/") for root in self._roots):
            raise Refused(403, "filePath is not below a root of this proxy")


@contextmanager
def _refusals() -> Iterator[None]:
    """Turns an error of the storage into an answer: the client retries if the storage is down."""
    try:
        yield
    except DatabaseError as error:
        raise Refused(503 if isinstance(error, Transient) else 404, str(error)) from error
