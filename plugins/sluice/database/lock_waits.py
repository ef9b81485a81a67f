"""Changes of objects that an application uses: each waits for a lock for a moment only, then gives way and tries again.

A change is a transaction that limits its lock waits to `LOCK_SECONDS`.
"""

import random
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from sluice.database.errors import LockNotAvailable

LOCK_SECONDS = 0.5
"""How long DDL on the master waits for a lock; the application's statements queue behind it meanwhile."""
LOCK_TRIES = 40
"""How often DDL on the master tries to get a lock."""
READ_SECONDS = 3.0
"""How long a statement that reads definitions on the master waits for one table: others may stand behind it."""
Thing = TypeVar("Thing")
Result = TypeVar("Result")


def back_off(attempt: int) -> float:
    """Seconds in which the application has a lock for itself, after so many tries to take it."""
    return min(5.0, 0.1 * 2.0**attempt) * random.uniform(0.5, 1.0)


def with_each(things: Iterable[Thing], change: Callable[[Thing], None]) -> list[Thing]:
    """Changes each; those are left that stayed locked. One that is locked is tried again after the others."""
    left = list(things)
    for attempt in range(LOCK_TRIES):
        locked = []
        for thing in left:
            try:
                change(thing)
            except LockNotAvailable:
                locked.append(thing)
        left = locked
        if not left:
            break
        time.sleep(back_off(attempt))
    return left


def until_unlocked(change: Callable[[], Result]) -> Result:
    """The result of `change`. Raises `LockNotAvailable` after the last try."""
    for attempt in range(LOCK_TRIES - 1):
        try:
            return change()
        except LockNotAvailable:
            time.sleep(back_off(attempt))
    return change()
