"""A session on a database server, whatever its vendor."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, LiteralString, Protocol, Self

from sluice.model.connection import ConnectionInfo


class Rows(Protocol):
    """What a statement returned, or how many rows it touched."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any | None: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Session(Protocol):
    """Every method raises errors of `sluice.database.errors`, and no other of its driver.

    A session is in autocommit mode, or its statements open a transaction that `transaction()` nests in.
    """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Ends the session."""
        ...

    @property
    def vendor(self) -> str:
        """Whose server it is on, by the word that the configuration uses."""
        ...

    @property
    def closed(self) -> bool: ...

    @property
    def broken(self) -> bool:
        """Whether the connection was lost, and not closed by us."""
        ...

    def execute(
        self, query: LiteralString | bytes, params: Sequence[object] | Mapping[str, object] | None = None, /
    ) -> Rows:
        """Runs a statement in the vendor's dialect: for the vendor's own modules, never for services."""
        ...

    def execute_many(self, query: LiteralString, rows: Sequence[Mapping[str, object]], /) -> None:
        """Runs the same statement once for each of `rows`, its parameters."""
        ...

    def transaction(self, *, durable: bool | None = None) -> AbstractContextManager[object]:
        """Commits at the end of the block, rolls back when it raises; a savepoint within another one.

        `durable`: whether the commit waits for the disk; None: as the account is set up.
        """
        ...

    def expect_idle(self) -> None:
        """Raises `ValueError` inside a transaction: a service commits by itself, which a surrounding one would undo."""
        ...

    def ping(self) -> None:
        """One round trip."""
        ...

    def clock(self) -> datetime:
        """What time it is on the server."""
        ...

    def limit_lock_waits(self, seconds: float) -> None:
        """From now on a statement that waits longer for a lock raises `LockNotAvailable`."""
        ...

    def close(self) -> None:
        """Never raises for a connection that is lost."""
        ...


@dataclass(frozen=True)
class SessionOptions:
    """What a session is to do otherwise than any of Sluice's."""

    statement_seconds: float | None = None
    """How long each statement may take; None: as long as it takes."""
    lock_seconds: float | None = None
    """How long a statement may wait for a lock; None: until it has it."""
    read_only: bool = False
    durable: bool = True
    """False: its commits need not wait for the disk."""
    origin: str = ""
    """The replication whose changes it makes; empty: they are the session's own."""
    loads: bool = False
    """It reads or stores whole tables: rows that a policy hides are an error, and its transactions see what others
    commit meanwhile."""


PLAIN = SessionOptions()


class Connector(Protocol):
    """Makes sessions."""

    def connect(
        self,
        info: ConnectionInfo,
        *,
        application: str,
        autocommit: bool = False,
        options: SessionOptions = PLAIN,
    ) -> Session:
        """`application` names the session on the server. Raises `DatabaseUnreachable`, `DatabaseRefused`."""
        ...


class Sessions(Connector, Protocol):
    """Makes sessions of one vendor, and prepares them for what they are for."""

    def end_with_client(self, connection: Session) -> None:
        """From now on a statement ends soon after its client has died, where the server can tell."""
        ...

    @property
    def SEE_LOCKS(self) -> str:  # noqa: N802
        """Where a person sees who holds a lock: a clause, without full stop."""
        ...

    def begin_applying(self, connection: Session, origin: str) -> bool:
        """Names the origin of the session's changes and switches the slave's own triggers off; whether it may."""
        ...

    def may_silence(self, connection: Session) -> bool:
        """Whether this account may switch triggers and foreign keys off for its own session."""
        ...

    def allow_silence(self, connection: Session) -> str:
        """What an administrator runs so that `may_silence` is true of the session's account."""
        ...

    def named_lock(self, connection: Session, name: str) -> AbstractContextManager[None]:
        """No other session of the database holds the lock of this name until the block, or the session, ends.

        Transactions of the session may begin and end in the block. Raises `LockNotAvailable` after a few seconds.
        """
        ...

    def limit_lock_waits(self, connection: Session, seconds: float) -> None:
        """In a transaction: a statement that waits longer for a lock raises `LockNotAvailable`."""
        ...

    def be_durable(self, connection: Session) -> None:
        """In a transaction: no crash undoes its commit."""
        ...

    def begin_reading(self, connection: Session, place: str, idle_seconds: float) -> None:
        """For a session that holds a snapshot: the server ends it when it is idle for so long, or its client dies."""
        ...

    def end_when_idle(self, connection: Session, seconds: float) -> None:
        """The server ends the session when its transaction does nothing for so long."""
        ...

    def waiters(self, connection: Session, holders: Sequence[Session], place: str, seconds: float) -> int:
        """How many sessions wait for locks that `holders` have. `seconds`: for an answer. Raises `Transient`."""
        ...

    def interrupt(self, connection: Session) -> None:
        """Cancels what it executes, if anything. From any thread; never raises."""
        ...

    def cut(self, connection: Session) -> None:
        """Ends the connection under a thread that waits for the server. From any thread; never raises."""
        ...
