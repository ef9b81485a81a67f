"""Locks by name on PostgreSQL, which only sessions of this account can hold or prevent.

Anybody may take any advisory lock forever. So each holder takes one of 2^32 numbers under the name, drawn at random,
and a lock counts only if its session belongs to this account, to a member of it, or to a superuser.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg

from sluice import sql_files
from sluice.database.errors import DatabaseError, LockNotAvailable
from sluice.database.session import Session
from sluice.vendors.postgres.connection import native

SECONDS = 5.0
"""How long a lock is waited for."""
PAUSE_SECONDS = 0.05

SEE_LOCKS = "see pg_stat_activity and pg_locks"
"""Where a person sees which sessions have locks."""


def take(connection: Session, name: str) -> bool:
    """Takes the lock for the session, beyond its transactions, if no other session has it; whether it did."""
    with _in_transaction(connection):
        number = _mark(connection, "lock_session", name)
        if holders(connection, name):
            connection.execute(sql_files.render("postgres", "lock_release"), {"name": name, "number": number})
            return False
    return True


def release(connection: Session, name: str) -> None:
    """Gives the session's lock back."""
    with _in_transaction(connection):
        for number, _ in _marks(connection, name, own=True):
            connection.execute(sql_files.render("postgres", "lock_release"), {"name": name, "number": number})


def holders(connection: Session, name: str) -> list[str]:
    """The other sessions that have the lock, or are just trying to take it, described for a message."""
    return [described for _, described in _marks(connection, name, own=False)]


@contextmanager
def named_lock(connection: Session, name: str) -> Iterator[None]:
    """As of `Sessions.named_lock`."""
    await_lock(connection, name, lambda: take(connection, name), SECONDS)
    try:
        yield
    finally:
        with suppress(DatabaseError):  # a lost session holds no lock
            release(connection, name)


def lock_transaction(connection: Session, name: str) -> None:
    """In a transaction: has the lock until it ends. Raises `LockNotAvailable`."""

    def taken() -> bool:
        alone = False
        with connection.transaction():  # a savepoint: its rollback gives the lock back
            mark(connection, name)
            alone = not holders(connection, name)
            if not alone:
                raise psycopg.Rollback
        return alone

    await_lock(connection, name, taken, 60.0)


def mark(connection: Session, name: str) -> None:
    """In a transaction: shows in `holders` of others until it ends, together with any number of others."""
    _mark(connection, "lock_transaction", name)


def _mark(connection: Session, statement: str, name: str) -> int:
    while True:
        number = random.SystemRandom().randrange(-(2**31), 2**31)
        row = connection.execute(sql_files.render("postgres", statement), {"name": name, "number": number}).fetchone()
        if row and row[0]:
            return number


def _marks(connection: Session, name: str, *, own: bool) -> list[tuple[int, str]]:
    with _in_transaction(connection):
        # A transaction remembers which sessions there are.
        connection.execute("SELECT pg_catalog.pg_stat_clear_snapshot()")
        rows = connection.execute(sql_files.render("postgres", "lock_marks"), {"name": name, "own": own}).fetchall()
    return [(int(number), str(described)) for number, described in rows]


@contextmanager
def _in_transaction(connection: Session) -> Iterator[None]:
    """Unless one is open already, a transaction that ends here: a session without autocommit would begin one that stays
    open, and what follows would be committed with it, or never."""
    if native(connection).info.transaction_status is psycopg.pq.TransactionStatus.IDLE:
        with connection.transaction():
            yield
    else:
        yield


def await_lock(connection: Session, name: str, taken: Callable[[], bool], seconds: float) -> None:
    """Waits until `taken` says so. Raises `LockNotAvailable`."""
    ends = time.monotonic() + seconds
    while not taken():
        if time.monotonic() > ends:
            raise LockNotAvailable(f"{native(connection).info.host}: another session holds the lock {name!r}")
        time.sleep(PAUSE_SECONDS * (0.5 + random.random()))  # two that gave way to each other come back apart
