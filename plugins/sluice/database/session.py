"""A session on a database server, whatever its vendor."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, LiteralString, Protocol


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

    @property
    def closed(self) -> bool: ...

    @property
    def broken(self) -> bool:
        """Whether the connection was lost, and not closed by us."""
        ...

    def execute(self, query: LiteralString | bytes, params: Sequence[Any] | Mapping[str, Any] | None = None, /) -> Rows:
        """Runs a statement in the vendor's dialect: for the vendor's own modules, never for services."""
        ...

    def transaction(self, *, durable: bool | None = None) -> AbstractContextManager[object]:
        """Commits at the end of the block, rolls back when it raises; a savepoint within another one.

        `durable`: whether the commit waits for the disk; None: as the account is set up.
        """
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
