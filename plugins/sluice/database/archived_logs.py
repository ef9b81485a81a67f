"""A master's data about its archived redo logs: which copies exist, and which are deleted."""

from dataclasses import dataclass


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
    """The used share of the fast recovery area, from 0 to 1; when it is full the master deletes logs by itself."""
