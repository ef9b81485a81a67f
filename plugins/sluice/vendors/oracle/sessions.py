"""Sessions on Oracle for services (`sluice.database.session.Sessions`)."""

import contextlib
from collections.abc import Sequence

from sluice.database.session import Session
from sluice.vendors.oracle.connection import DriverSession, connect  # noqa: F401
from sluice.vendors.oracle.named_locks import named_lock  # noqa: F401
from sluice.vendors.oracle.session import native

SEE_LOCKS = "see V$SESSION, column BLOCKING_SESSION"


def end_with_client(connection: Session) -> None:
    """Does nothing: SQLNET.EXPIRE_TIME, which the administrator sets, decides when the server looks for dead
    clients."""


def begin_applying(connection: Session, origin: str) -> bool:
    """False: triggers and foreign keys act. To fire none in a session needs a licence of GoldenGate."""
    native(connection).name_origin(origin)
    return False


def may_silence(connection: Session) -> bool:
    return False


def allow_silence(connection: Session) -> str:
    """The statement that disables the triggers of one table; nobody can disable those of a session."""
    return "ALTER TABLE … DISABLE ALL TRIGGERS"


def limit_lock_waits(connection: Session, seconds: float) -> None:
    """Sets the limit for the rest of the session: there is no setting of a transaction."""
    connection.limit_lock_waits(seconds)


def be_durable(connection: Session) -> None:
    """Does nothing: every commit waits for the disk."""


def begin_reading(connection: Session, place: str, idle_seconds: float) -> None:
    """Begins reading. A snapshot holds nothing on the server: it does not prolong the life of undo."""


def end_when_idle(connection: Session, seconds: float) -> None:
    """Does nothing: the account's profile decides (IDLE_TIME), which the administrator sets."""


def waiters(connection: Session, holders: Sequence[Session], place: str, seconds: float) -> int:
    """0: readers lock nothing."""
    del connection, holders, place, seconds
    return 0


def interrupt(connection: Session) -> None:
    """Cancels what it executes, if anything. From any thread; never raises."""
    session = native(connection)
    if isinstance(session, DriverSession):
        session.cancel()


def cut(connection: Session) -> None:
    """Ends the connection under a thread that waits for the server. From any thread; never raises."""
    with contextlib.suppress(Exception):
        interrupt(connection)
        connection.close()
