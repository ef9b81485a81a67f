"""A session on a database server of any vendor."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, LiteralString, Protocol, Self

from sluice.model.connection import ConnectionInfo


class Rows(Protocol):
    """The result of a statement: its rows, or how many it touched."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any | None: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Session(Protocol):
    """A session. Its methods raise errors of `sluice.database.errors`, and no others of the driver.

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
        """The vendor of its server, by its name in the configuration."""
        ...

    @property
    def closed(self) -> bool: ...

    @property
    def broken(self) -> bool:
        """Whether the connection was lost, not closed."""
        ...

    def execute(
        self, query: LiteralString | bytes, params: Sequence[object] | Mapping[str, object] | None = None, /
    ) -> Rows:
        """Runs a statement in the vendor's dialect. Only for the vendor's own modules and `sluice.control`."""
        ...

    def execute_many(self, query: LiteralString, rows: Sequence[Mapping[str, object]], /) -> None:
        """Runs the statement once for each of `rows`, its parameters."""
        ...

    def transaction(
        self, *, durable: bool | None = None, first: Callable[[], object] | None = None
    ) -> AbstractContextManager[object]:
        """Commits at the end of the block, rolls back when it raises. Within another transaction: a savepoint.

        `durable`: whether the commit waits for the disk; None: by the account's settings. `first` executes the first
        statements, whose results must not be read before the block: they travel with the beginning if they can.
        """
        ...

    def expect_idle(self) -> None:
        """Raises `ValueError` inside a transaction, for callers that commit."""
        ...

    def ping(self) -> None:
        """Does one round trip to the server."""
        ...

    def clock(self) -> datetime:
        """The server's time."""
        ...

    def limit_lock_waits(self, seconds: float) -> None:
        """From now on, a statement that waits longer for a lock raises `LockNotAvailable`."""
        ...

    def close(self) -> None:
        """Ends the session. Does not raise if the connection is lost."""
        ...


@dataclass(frozen=True)
class SessionOptions:
    """Options of a session."""

    statement_seconds: float | None = None
    """The time limit of each statement; None: none."""
    lock_seconds: float | None = None
    """The time limit for waiting for a lock; None: none."""
    read_only: bool = False
    durable: bool = True
    """Whether its commits wait for the disk."""
    origin: str = ""
    """The replication whose changes it writes; empty: its own changes."""
    loads: bool = False
    """Whether it reads or stores whole tables. Then rows hidden by a policy are an error, and its transactions see
    what others commit meanwhile."""


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
    """Makes sessions of one vendor, and prepares them for their use."""

    def end_with_client(self, connection: Session) -> None:
        """Makes the server end statements soon after the client has died, if it can."""
        ...

    @property
    def SEE_LOCKS(self) -> str:  # noqa: N802
        """A clause for messages, without full stop: where a person sees which sessions have locks."""
        ...

    def begin_applying(self, connection: Session, origin: str) -> bool:
        """Names the origin of the session's changes, and switches the slave's own triggers off if allowed; whether."""
        ...

    def may_silence(self, connection: Session) -> bool:
        """Whether this account may switch triggers and foreign keys off for its session."""
        ...

    def allow_silence(self, connection: Session) -> str:
        """The statement with which an administrator allows that."""
        ...

    def named_lock(self, connection: Session, name: str) -> AbstractContextManager[None]:
        """Has the lock of this name, exclusively in the database, until the block or the session ends.

        Transactions of the session may begin and end in the block. Raises `LockNotAvailable` after a few seconds.
        """
        ...

    def limit_lock_waits(self, connection: Session, seconds: float) -> None:
        """In a transaction: a statement that waits longer for a lock raises `LockNotAvailable`."""
        ...

    def be_durable(self, connection: Session) -> None:
        """In a transaction: makes its commit wait for the disk."""
        ...

    def begin_reading(self, connection: Session, server: str, idle_seconds: float) -> None:
        """Makes the server end a session with a snapshot when it is idle for so long, or its client dies."""
        ...

    def end_when_idle(self, connection: Session, seconds: float) -> None:
        """Makes the server end the session when its transaction is idle for so long."""
        ...

    def waiters(self, connection: Session, holders: Sequence[Session], server: str, seconds: float) -> int:
        """How many sessions wait for locks of `holders`. `seconds`: time limit for the answer. Raises `Transient`."""
        ...

    def interrupt(self, connection: Session) -> None:
        """Cancels the running statement, if any. May be called in any thread; never raises."""
        ...

    def cut(self, connection: Session) -> None:
        """Ends the connection while another thread waits for the server. May be called in any thread; never raises."""
        ...


# Conditions that servers of every vendor take.

MOST_IN_A_LIST = 1_000
"""No server takes fewer."""


def in_lists(expression: str, values: Sequence[str]) -> str:
    """The condition that `expression` is one of `values`, each a literal or a parameter; there is at least one."""
    parts = [values[start : start + MOST_IN_A_LIST] for start in range(0, len(values), MOST_IN_A_LIST)]
    lists = [f"{expression} IN ({', '.join(part)})" for part in parts]
    return lists[0] if len(lists) == 1 else f"({' OR '.join(lists)})"
