"""Sessions on MySQL and MariaDB for services (`sluice.database.session.Sessions`)."""

import contextlib
from collections.abc import Sequence

from sluice.database.session import Session
from sluice.errors import SluiceError
from sluice.vendors.mysql.connection import connect, native
from sluice.vendors.mysql.named_locks import named_lock  # noqa: F401

SEE_LOCKS = "see SHOW FULL PROCESSLIST and information_schema.innodb_trx"


def end_with_client(connection: Session) -> None:
    """Does nothing: the server notices a dead client only when it answers, and has no setting to look earlier."""


def begin_applying(connection: Session, origin: str) -> bool:
    """Disables foreign keys for this session. Triggers act: nobody can disable them."""
    del origin
    native(connection).run("SET foreign_key_checks = 0")
    return True


def may_silence(connection: Session) -> bool:
    """True: foreign keys need no privilege."""
    return True


def allow_silence(connection: Session) -> str:
    """The statement that disables foreign keys; no account needs a privilege for it."""
    return "SET foreign_key_checks = 0"


def limit_lock_waits(connection: Session, seconds: float) -> None:
    """For the rest of the session: there is no such setting of a transaction."""
    connection.limit_lock_waits(seconds)


def be_durable(connection: Session) -> None:
    """Does nothing: the server decides for all sessions, and `CheckpointStore.secure` checks its setting."""


def begin_reading(connection: Session, place: str, idle_seconds: float) -> None:
    """Sets how long the server keeps an idle session that holds a snapshot."""
    del place
    end_when_idle(connection, idle_seconds)


def end_when_idle(connection: Session, seconds: float) -> None:
    """The server ends the session when it does nothing for so long."""
    native(connection).run(f"SET wait_timeout = {max(1, round(seconds))}")


def waiters(connection: Session, holders: Sequence[Session], place: str, seconds: float) -> int:
    """How many sessions of this account wait for a table's definition: a snapshot's reader holds nothing else."""
    del holders, place, seconds
    row = (
        native(connection)
        .run("SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock'")
        .fetchone()
    )
    return int(row[0]) if row else 0


def interrupt(connection: Session) -> None:
    """Cancels what it executes, if anything. From any thread; never raises."""
    session = native(connection)
    with contextlib.suppress(SluiceError, OSError), connect(session.info, application="sluice interrupt") as other:
        other.run(f"KILL QUERY {session.number}")


def cut(connection: Session) -> None:
    """Ends the connection under a thread that waits for the server. From any thread; never raises."""
    native(connection).shut()
