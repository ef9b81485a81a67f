"""The locks of load jobs and their loaders (`LoadLocks`)."""

from sluice import sql_files
from sluice.database.control import LoadRuns
from sluice.database.errors import LockNotAvailable
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.postgres import sessions
from sluice.vendors.postgres.connection import application_name

NO_CLAIMS_SECONDS = 10


def lock(connection: Session, prefix: Prefix, slave: str) -> None:
    """Takes the lock of the slave's load, for as long as this session lives. Raises `LoadRuns`."""
    name = f"load {prefix} {slave}"
    if not sessions.take(connection, name):
        holders = sessions.holders(connection, name)
        raise LoadRuns(slave, holders[0] if holders else "it has just ended")


def hold(connection: Session, job: str) -> None:
    """Lets the job's loaders claim blocks, for as long as this session lives or until `let_go`."""
    sessions.take(connection, _of_job(job))


def let_go(connection: Session, job: str) -> None:
    """Ends that: the job's loaders may claim no more blocks."""
    sessions.release(connection, _of_job(job))


def claiming(connection: Session, prefix: Prefix, slave: str, job: str) -> bool:
    """First in the transaction of a claim: whether the loader's job still lives.

    Raises `LockNotAvailable` while a job allows no claims.
    """
    sessions.mark(connection, _claims(prefix, slave))
    if holders := sessions.holders(connection, _no_claims(prefix, slave)):
        raise LockNotAvailable(f"no block can be claimed just now: {holders[0]} gives begun ones back")
    return bool(sessions.holders(connection, _of_job(job)))


def claim_in_turn(connection: Session, prefix: Prefix, slave: str) -> None:
    """In the transaction of a claim: makes other claims wait until it ends, so that limits on reading hold."""
    sessions.lock_transaction(connection, f"load limits {prefix} {slave}")


def no_claims(connection: Session, prefix: Prefix, slave: str) -> None:
    """In a transaction: waits for running claims, and allows none until it ends."""
    claims = _claims(prefix, slave)
    sessions.mark(connection, _no_claims(prefix, slave))
    sessions.await_lock(connection, claims, lambda: not sessions.holders(connection, claims), NO_CLAIMS_SECONDS)


def end_sessions(connection: Session, application: str) -> int:
    """Ends sessions of a killed job's loaders, by their application's name. Returns how many.

    Only those of this account; a session that may not be ended stays, but can store nothing.
    """
    row = connection.execute(
        sql_files.render("postgres", "sessions_end"), {"application": application_name(application)}
    ).fetchone()
    return int(row[0]) if row else 0


def _of_job(job: str) -> str:
    """The lock that a live job has."""
    return f"load job {job}"


def _claims(prefix: Prefix, slave: str) -> str:
    """The mark of all running claims."""
    return f"load claims {prefix} {slave}"


def _no_claims(prefix: Prefix, slave: str) -> str:
    """The mark of a job that allows none."""
    return f"no load claims {prefix} {slave}"
