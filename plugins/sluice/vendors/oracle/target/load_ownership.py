"""The locks that keep two load jobs apart (`LoadLocks`)."""

from sluice import sql_files
from sluice.database.control import LoadRuns
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.common.named_locks import SECONDS
from sluice.vendors.oracle import named_locks
from sluice.vendors.oracle.target.control_tables import OracleTables


def lock(connection: Session, prefix: Prefix, slave: str) -> None:
    """Takes the right to load the slave, as long as this session lives. Raises `LoadRuns`."""
    for row in ("claims", "limits"):
        _ensure(connection, prefix, f"{row} {slave}")
    if not named_locks.take(connection, f"load {prefix} {slave}"):
        raise LoadRuns(slave, "a session of the server that V$LOCK shows with a lock of type UL")


def hold(connection: Session, job: str) -> None:
    """Marks the job as alive, so that its loaders may claim blocks, until `let_go` or the end of the session."""
    named_locks.take(connection, f"load job {job}", SECONDS)


def let_go(connection: Session, job: str) -> None:
    """Ends `hold`: the job's loaders may claim no more blocks."""
    named_locks.release(connection, f"load job {job}")


def claiming(connection: Session, prefix: Prefix, slave: str, job: str) -> bool:
    """Begins the transaction of a claim; False if the loader's job is over. Claims wait for one another."""
    _lock_row(connection, prefix, f"claims {slave}")
    return named_locks.taken(connection, f"load job {job}")


def claim_in_turn(connection: Session, prefix: Prefix, slave: str) -> None:
    """Makes other claims wait until the transaction of this claim ends, so that limits on reading hold."""
    _lock_row(connection, prefix, f"limits {slave}")


def no_claims(connection: Session, prefix: Prefix, slave: str) -> None:
    """Waits for running claims, and allows none until the transaction ends."""
    _lock_row(connection, prefix, f"claims {slave}")


def end_sessions(connection: Session, application: str) -> int:
    """None: only an administrator may end a session. One that is left over can store nothing."""
    del connection, application
    return 0


def _ensure(connection: Session, prefix: Prefix, row: str) -> None:
    own = OracleTables(connection, prefix).placeholders
    connection.execute(sql_files.render("oracle", "locks_ensure", **own), {"name": row})


def _lock_row(connection: Session, prefix: Prefix, row: str) -> None:
    own = OracleTables(connection, prefix).placeholders
    statement = sql_files.render("oracle", "locks_take", **own)
    if connection.execute(statement, {"name": row}).fetchone() is None:
        # The job is of an earlier release, which did not insert the row.
        _ensure(connection, prefix, row)
        connection.execute(statement, {"name": row})
