"""A named lock that is held beyond transactions, for the time of a context."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sluice.database.errors import DatabaseError, LockNotAvailable

SECONDS = 5
"""How long it is waited for."""


@contextmanager
def locked(name: str, place: str, take: Callable[[float], bool], release: Callable[[], None]) -> Iterator[None]:
    """Holds the lock in the block. `place`: the server's name; `take` waits at most so many seconds. Raises
    `LockNotAvailable`."""
    if not take(SECONDS):
        raise LockNotAvailable(f"{place}: another session holds the lock {name!r}")
    try:
        yield
    finally:
        with contextlib.suppress(DatabaseError):  # a session that is lost holds no lock
            release()
