"""The locks that keep two load jobs apart (`LoadLocks`)."""

from sluice import sql_files
from sluice.database.control import LoadRuns
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.mysql import named_locks
from sluice.vendors.mysql.connection import native
from sluice.vendors.mysql.target.control_tables import MySQLTables

_ALONE, _TOGETHER = "FOR UPDATE", "LOCK IN SHARE MODE"


def lock(connection: Session, prefix: Prefix, slave: str) -> None:
    """Takes the right to load the slave, as long as this session lives. Raises `LoadRuns`."""
    wanted = f"load {prefix} {slave}"
    for claims in ("claims", "limits"):
        _ensure(connection, prefix, f"{claims} {slave}")
    if not named_locks.take(connection, wanted):
        number = named_locks.holder(connection, wanted)
        raise LoadRuns(slave, f"session {number} of the server" if number else "it has just ended")


def hold(connection: Session, job: str) -> None:
    """Marks the job as alive, so that its loaders may claim blocks, until `let_go` or the end of the session."""
    named_locks.take(connection, f"load job {job}", named_locks.FOR_EVER)


def let_go(connection: Session, job: str) -> None:
    """Ends `hold`: the job's loaders may claim no more blocks."""
    named_locks.release(connection, f"load job {job}")


def claiming(connection: Session, prefix: Prefix, slave: str, job: str) -> bool:
    """Begins the transaction of a claim; False if the loader's job is over."""
    _lock_row(connection, prefix, f"claims {slave}", _TOGETHER)
    return named_locks.holder(connection, f"load job {job}") is not None


def claim_in_turn(connection: Session, prefix: Prefix, slave: str) -> None:
    """Makes other claims wait until the transaction of this claim ends, so that limits on reading hold."""
    _lock_row(connection, prefix, f"limits {slave}", _ALONE)


def no_claims(connection: Session, prefix: Prefix, slave: str) -> None:
    """Waits for running claims, and allows none until the transaction ends."""
    _lock_row(connection, prefix, f"claims {slave}", _ALONE)


def end_sessions(connection: Session, application: str) -> int:
    """None: without privileges, a server does not tell the names of applications. Such a session can store nothing,
    and its server ends it when its client's machine is gone."""
    del connection, application
    return 0


def _ensure(connection: Session, prefix: Prefix, row: str) -> None:
    own = MySQLTables(connection, prefix).placeholders
    connection.execute(sql_files.render("mysql", "locks_ensure", **own), {"name": row})


def _lock_row(connection: Session, prefix: Prefix, row: str, how: str) -> None:
    own = MySQLTables(connection, prefix).placeholders
    statement = sql_files.render("mysql", "locks_take", **own, how=how)
    if native(connection).execute(statement, {"name": row}).fetchone() is None:
        # The job is of an earlier release, which did not insert the row.
        _ensure(connection, prefix, row)
        connection.execute(statement, {"name": row})
