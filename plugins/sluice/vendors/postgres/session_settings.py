"""Settings of sessions that apply to a PostgreSQL slave."""

import psycopg

from sluice.database.session import Session
from sluice.vendors.postgres.connection import literal, native, quoted

GRANTABLE_SETTINGS = 150000
"""From this version on a superuser can grant the right to set a parameter."""
ORIGIN = "sluice.origin"
"""A setting; where it is not empty, capture triggers record nothing, so that replication does not loop."""


def origin(name: str) -> dict[str, str]:
    """Settings of a session that applies changes of the replication `name`."""
    return {ORIGIN: name}


def begin_applying(connection: Session, origin: str) -> bool:
    """Sets the origin of this session's changes and switches the slave's triggers off. Returns whether the account may.

    Otherwise triggers and foreign keys act on every change; deferrable foreign keys are checked at commit.
    """
    with connection.transaction():
        connection.execute(f"SET {ORIGIN} = {literal(origin)}")
        # One statement joins a large window with its table; with the default of 4 MB it uses files, a third slower.
        connection.execute("SET work_mem = '128MB'")
        # Changed rows are mostly in memory. With the default of 4, meant for hard disks, a window of 1 % of a table's
        # rows is joined by a scan of the table: eight times the CPU at 10,000 changes/s, and more as the table grows.
        connection.execute(
            "SELECT set_config('random_page_cost', '1.1', false)"
            " WHERE pg_catalog.current_setting('random_page_cost')::float8 > 1.1"
        )
        # The cost of large windows exceeds `jit_above_cost`, but compiling their joins takes longer than it saves.
        connection.execute("SET jit = off")
        return _silenced(connection, "SET session_replication_role = replica")


def may_silence(connection: Session) -> bool:
    """Whether this account may switch triggers and foreign keys off for its own session."""
    return _silenced(connection, "SET LOCAL session_replication_role = replica")


def allow_silence(connection: Session) -> str:
    """The statement with which an administrator gives this account the right of `may_silence`."""
    info = native(connection).info
    return silence_statement(quoted(info.user), quoted(info.dbname), info.server_version)


def silence_statement(role: str, database: str, version: int) -> str:
    """As `allow_silence`, for a role and a database (quoted) on a server of this version."""
    if version >= GRANTABLE_SETTINGS:
        return f"GRANT SET ON PARAMETER session_replication_role TO {role}"
    # A superuser can set it for all sessions of a role that may not set it itself.
    return f"ALTER ROLE {role} IN DATABASE {database} SET session_replication_role = replica"


def _silenced(connection: Session, statement: str) -> bool:
    row = connection.execute("SELECT pg_catalog.current_setting('session_replication_role')").fetchone()
    if row == ("replica",):
        return True
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


def limit_lock_waits(connection: Session, seconds: float) -> None:
    """Within the transaction, statements that wait longer for a lock raise `LockNotAvailable`."""
    connection.execute(f"SET LOCAL lock_timeout = '{int(seconds * 1000)}ms'")


def be_durable(connection: Session) -> None:
    """Makes the commit of this transaction durable, regardless of the account's `synchronous_commit`."""
    connection.execute("SET LOCAL synchronous_commit = on")
