"""Named locks of a session, independent of its transactions: DBMS_LOCK, which uses numbers for them."""

import hashlib
from contextlib import AbstractContextManager
from functools import partial

from sluice.database.session import Session
from sluice.vendors.common import named_locks
from sluice.vendors.oracle.session import native

_NUMBERS = 1 << 30
_GIVEN, _HAD = 0, 4
"""Answers of DBMS_LOCK: the lock was taken, or the session already had it."""


def lock_number(name: str, schema: str) -> int:
    """The server's number of a lock of this schema."""
    return int.from_bytes(hashlib.sha256(f"sluice {schema} {name}".encode()).digest()[:8]) % _NUMBERS


def _request(session: Session, name: str, seconds: float) -> int:
    own = native(session)
    values = {"lock_id": lock_number(name, own.schema), "seconds": int(seconds)}
    return own.result_of("DBMS_LOCK.REQUEST(:lock_id, 6, :seconds, FALSE)", values)


def take(session: Session, name: str, seconds: float = 0) -> bool:
    """Whether the session has the lock; `seconds`: how long it waits."""
    return _request(session, name, seconds) in (_GIVEN, _HAD)


def release(session: Session, name: str) -> None:
    own = native(session)
    own.result_of("DBMS_LOCK.RELEASE(:lock_id)", {"lock_id": lock_number(name, own.schema)})


def taken(session: Session, name: str) -> bool:
    """Whether a session has the lock."""
    given = _request(session, name, 0) == _GIVEN
    if given:
        release(session, name)
    return not given


def named_lock(connection: Session, name: str) -> AbstractContextManager[None]:
    """As of `Sessions.named_lock`."""
    return named_locks.locked(
        name, native(connection).place, partial(take, connection, name), partial(release, connection, name)
    )
