"""Files in the disk groups of a master's storage, which its machines show in no folder (ASM)."""

from typing import NamedTuple, Protocol


class Extent(NamedTuple):
    """How large a file is."""

    blocks: int
    """Without the first one, which is not counted, and cannot be read."""
    block_size: int


class DiskFile(NamedTuple):
    """A file of a disk group."""

    path: str
    """The path with the plus sign: `+FRA/ORCL/ARCHIVELOG/2026_11_23/thread_1_seq_15.261.1224959854`."""
    size: int
    block_size: int
    modified: float
    """Seconds since 1970, of the server's clock."""


class DiskGroups(Protocol):
    """Asks the storage. Each method may be called by several threads at once, and raises `DatabaseError`."""

    def extent(self, path: str) -> Extent: ...

    def read(self, path: str, block: int, count: int) -> bytes:
        """Reads so many blocks from `block` on, which is at least 1; fewer at the file's end."""
        ...

    def files(self, disk_group: str) -> list[DiskFile]:
        """All files of a disk group, which is named without its plus sign."""
        ...
