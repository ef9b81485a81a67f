"""The locks of load jobs and their loaders (`LoadLocks`)."""

from sluice import sql_files
from sluice.database.control import LoadRuns
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import application_name
from sluice.vendors.postgres.session_settings import limit_lock_waits


def lock(connection: Session, prefix: Prefix, slave: str) -> None:
    """Takes the lock of the slave's load, for as long as this session lives. Raises `LoadRuns`."""
    values = {"key": f"sluice load {prefix} {slave}"}
    got = connection.execute(sql_files.render("postgres", "update_lock"), values).fetchone()
    if not (got and got[0]):
        holder = connection.execute(sql_files.render("postgres", "update_lock_holder"), values).fetchone()
        raise LoadRuns(slave, str(holder[0]) if holder else "it has just ended")


def hold(connection: Session, job: str) -> None:
    """Lets the job's loaders claim blocks, for as long as this session lives or until `let_go`."""
    connection.execute(sql_files.render("postgres", "named_lock"), {"name": _job_lock(job)})


def let_go(connection: Session, job: str) -> None:
    """Ends that: the job's loaders may claim no more blocks."""
    connection.execute(sql_files.render("postgres", "named_unlock"), {"name": _job_lock(job)})


def _job_lock(job: str) -> str:
    """The name of the lock that `load_claiming` checks."""
    return f"sluice load job {job}"


def claiming(connection: Session, prefix: Prefix, slave: str, job: str) -> bool:
    """First in the transaction of a claim: whether the loader's job still lives."""
    values = {"claims": f"{prefix} {slave}", "job": job}
    row = connection.execute(sql_files.render("postgres", "load_claiming"), values).fetchone()
    return bool(row and row[0])


def claim_in_turn(connection: Session, prefix: Prefix, slave: str) -> None:
    """In the transaction of a claim: makes other claims wait until it ends, so that limits on reading hold."""
    connection.execute(sql_files.render("postgres", "load_claims_in_turn"), {"claims": f"{prefix} {slave}"})


def no_claims(connection: Session, prefix: Prefix, slave: str) -> None:
    """In a transaction: waits for running claims, and allows none until it ends."""
    limit_lock_waits(connection, 10)
    connection.execute(sql_files.render("postgres", "load_no_claims"), {"claims": f"{prefix} {slave}"})


def end_sessions(connection: Session, application: str) -> int:
    """Ends sessions of a killed job's loaders, by their application's name. Returns how many.

    Only those of this account; a session that may not be ended stays, but can store nothing.
    """
    row = connection.execute(
        sql_files.render("postgres", "sessions_end"), {"application": application_name(application)}
    ).fetchone()
    return int(row[0]) if row else 0
