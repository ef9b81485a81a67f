"""How busy a master's server is, for the throttle of a load."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sluice.database.session import Session


class NoNumber(Exception):
    """A query did not return what can be compared with a limit."""


@dataclass(frozen=True)
class ServerLoad:
    """Counts leave Sluice's own sessions out."""

    sees_others: bool
    """Whether the account may see what other accounts do: without, sessions and standbys cannot be told."""
    active_sessions: int
    lock_waits: int
    wal: int
    """Bytes of the server's log of changes, written since the server exists."""
    replayed: list[int]
    """The place up to which each standby has replayed it."""
    replay_lag: float
    """Seconds, the greatest that the server measured; it stands still while a standby does."""
    clock: datetime


class ServerLoadMeter(Protocol):
    """Measures the load of a master over a read-only session."""

    GRANT: str
    """What to do if the account cannot see the sessions of others: a clause without full stop."""

    def read(self, connection: Session) -> ServerLoad:
        """The load now."""
        ...

    def number(self, connection: Session, query: str) -> float:
        """The result of a user's query, which may be anything. Raises `NoNumber`."""
        ...
