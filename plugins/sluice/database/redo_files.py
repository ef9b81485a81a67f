"""A master's archived redo logs, and files in the disk groups of its storage, which no folder shows (ASM)."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True)
class LogCopy:
    """A copy of one log, or one that was there."""

    resetlogs: int
    """The incarnation of the master."""
    thread: int
    sequence: int
    first_scn: int
    next_scn: int
    """The SCNs of the log are below this one, and not below the first one."""
    name: str
    """Its file; empty if it is deleted."""
    in_recovery_area: bool = False
    backups: int = 0
    """Times that the log was backed up."""

    @property
    def there(self) -> bool:
        return bool(self.name)


@dataclass(frozen=True)
class ArchivedLogs:
    """The logs of all threads that the master's control file knows."""

    resetlogs: int
    """The incarnation that the master is in."""
    copies: tuple[LogCopy, ...]
    area_used: float = 0.0
    """The used share of the fast recovery area, from 0 to 1. When it is full, the master deletes logs."""


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
