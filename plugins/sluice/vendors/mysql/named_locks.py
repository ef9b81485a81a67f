"""Locks by name, which a session holds beyond its transactions.

A server has one space of such names for all databases, and 64 characters for one.
"""

import hashlib
from contextlib import AbstractContextManager
from functools import partial

from sluice import sql_files
from sluice.database.session import Session
from sluice.vendors.common import named_locks
from sluice.vendors.mysql.connection import native

FOR_EVER = 31_536_000
"""Seconds; MariaDB takes no negative number for it."""


def lock_name(session: Session, name: str) -> str:
    """The server's name of a lock of this database."""
    whole = f"{native(session).info.database} {name}"
    return f"sluice {hashlib.sha256(whole.encode()).hexdigest()[:40]}"


def take(session: Session, name: str, seconds: float = 0) -> bool:
    """Whether the session got the lock; `seconds`: how long it waits."""
    values = {"name": lock_name(session, name), "seconds": seconds}
    row = session.execute(sql_files.render("mysql", "named_lock"), values).fetchone()
    return bool(row and row[0] == 1)


def release(session: Session, name: str) -> None:
    session.execute(sql_files.render("mysql", "named_unlock"), {"name": lock_name(session, name)})


def holder(session: Session, name: str) -> int | None:
    """The number of the session that has the lock."""
    row = session.execute(sql_files.render("mysql", "named_lock_holder"), {"name": lock_name(session, name)}).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def named_lock(connection: Session, name: str) -> AbstractContextManager[None]:
    """As of `Sessions.named_lock`."""
    return named_locks.locked(
        name, native(connection).place, partial(take, connection, name), partial(release, connection, name)
    )
