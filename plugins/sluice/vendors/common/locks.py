"""Locks by name, which a session holds beyond its transactions, and the locks of loads that are made of them."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sluice import sql_files
from sluice.database.control import LoadLocks, LoadRuns
from sluice.database.errors import DatabaseError, LockNotAvailable
from sluice.database.session import Session
from sluice.model.names import Prefix

SECONDS = 5
"""How long a lock is waited for."""


class NamedLocks(ABC):
    """The locks of one vendor's servers."""

    longest = float(SECONDS)
    """Seconds after which a wait that should have no end is given up."""

    @abstractmethod
    def take(self, session: Session, name: str, seconds: float = 0) -> bool:
        """Whether the session has the lock; `seconds`: how long it waits."""

    @abstractmethod
    def release(self, session: Session, name: str) -> None: ...

    @abstractmethod
    def holder(self, session: Session, name: str) -> str | None:
        """The session that has the lock, in words; None without one."""

    @contextmanager
    def held(self, session: Session, name: str, server: str) -> Iterator[None]:
        """Holds the lock in the block. `server`: the server's name. Raises `LockNotAvailable`."""
        if not self.take(session, name, SECONDS):
            raise LockNotAvailable(f"{server}: another session holds the lock {name!r}")
        try:
            yield
        finally:
            with contextlib.suppress(DatabaseError):  # a session that is lost holds no lock
                self.release(session, name)


class RowLoadLocks(LoadLocks, ABC):
    """Two load jobs are kept apart by a named lock, claims by rows of LOCKS."""

    named: NamedLocks
    alone: Mapping[str, str] = {}
    together: Mapping[str, str] = {}
    """Placeholders of `locks_take`: for a lock that no other session shares, and for one that others do."""

    @abstractmethod
    def names(self, connection: Session, prefix: Prefix) -> Mapping[str, str]:
        """The placeholders of statements on Sluice's own tables."""

    def lock(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """Takes the right to load the slave, as long as this session lives. Raises `LoadRuns`."""
        for row in ("claims", "limits"):
            self._ensure(connection, prefix, f"{row} {slave}")
        name = f"load {prefix} {slave}"
        if not self.named.take(connection, name):
            raise LoadRuns(slave, self.named.holder(connection, name) or "it has just ended")

    def hold(self, connection: Session, job: str) -> None:
        """Marks the job as alive, so that its loaders may claim blocks, until `let_go` or the end of the session."""
        self.named.take(connection, f"load job {job}", self.named.longest)

    def let_go(self, connection: Session, job: str) -> None:
        """Ends `hold`: the job's loaders may claim no more blocks."""
        self.named.release(connection, f"load job {job}")

    def claiming(self, connection: Session, prefix: Prefix, slave: str, job: str) -> bool:
        """Begins the transaction of a claim; False if the loader's job is over."""
        self._lock_row(connection, prefix, f"claims {slave}", self.together)
        return self.named.holder(connection, f"load job {job}") is not None

    def claim_in_turn(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """Makes other claims wait until the transaction of this claim ends, so that limits on reading hold."""
        self._lock_row(connection, prefix, f"limits {slave}", self.alone)

    def no_claims(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """Waits for running claims, and allows none until the transaction ends."""
        self._lock_row(connection, prefix, f"claims {slave}", self.alone)

    def end_sessions(self, connection: Session, application: str) -> int:
        """None: an account without further privileges does not see, or may not end, such a session. It can store
        nothing, and its server ends it when its client's machine is gone."""
        return 0

    def _ensure(self, connection: Session, prefix: Prefix, row: str) -> None:
        names = self.names(connection, prefix)
        connection.execute(sql_files.render(connection.vendor, "locks_ensure", **names), {"name": row})

    def _lock_row(self, connection: Session, prefix: Prefix, row: str, how: Mapping[str, str]) -> None:
        statement = sql_files.render(connection.vendor, "locks_take", **self.names(connection, prefix), **how)
        if connection.execute(statement, {"name": row}).fetchone() is None:
            # The job is of an earlier release, which did not insert the row.
            self._ensure(connection, prefix, row)
            connection.execute(statement, {"name": row})
