"""What a master says of its archived redo logs: which copies there are, and which are gone."""

from dataclasses import dataclass
from typing import Protocol

from sluice.database.session import Session


@dataclass(frozen=True)
class LogCopy:
    """A copy of one log, or one that was there."""

    resetlogs: int
    """The incarnation of the master."""
    thread: int
    sequence: int
    first_scn: int
    next_scn: int
    """All of the log is below this SCN, and none of it below the first one."""
    name: str
    """Its file; empty where it is gone."""
    in_recovery_area: bool = False
    backups: int = 0
    """Times that the log was backed up."""

    @property
    def there(self) -> bool:
        return bool(self.name)


@dataclass(frozen=True)
class ArchivedLogs:
    """Of all threads, as far as the master's control file knows."""

    resetlogs: int
    """The incarnation that the master is in."""
    copies: tuple[LogCopy, ...]
    area_used: float = 0.0
    """Which part of the fast recovery area is in use, from 0 to 1; in a full one the master deletes logs by itself."""


class ArchivedLogReader(Protocol):
    """Asks a master."""

    def __call__(self, session: Session) -> ArchivedLogs:
        """Raises `DatabaseError`."""
        ...
