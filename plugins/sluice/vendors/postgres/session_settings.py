"""What a session that applies to a PostgreSQL slave sets first."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from sluice import sql_files
from sluice.database.errors import DatabaseError
from sluice.database.session import Session
from sluice.vendors.postgres.connection import literal, native, quoted

GRANTABLE_SETTINGS = 150000
"""From this version on an account that is no superuser can be let set what only a superuser may."""
NAMED_LOCK_SECONDS = 5.0
ORIGIN = "sluice.origin"
"""Capture triggers stay quiet where this setting is not empty, so that replication does not loop."""


def origin(name: str) -> dict[str, str]:
    """Settings of a connection whose changes come from the replication `name`."""
    return {ORIGIN: name}


def begin_applying(connection: Session, origin: str) -> bool:
    """Names the origin of this session's changes and switches the slave's own triggers off.

    True when the account may switch them off. Otherwise triggers and foreign keys act on every
    change; the latter are then checked at commit where they are deferrable.
    """
    with connection.transaction():
        connection.execute(f"SET {ORIGIN} = {literal(origin)}")
        # A large window takes as long as it takes. PostgreSQL before 17 has no such setting.
        connection.execute(
            "SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout'"
        )
        # A large window is joined with its table in one statement; PostgreSQL's 4 MB spill to files, a third slower.
        connection.execute("SET work_mem = '128MB'")
        # Rows that change are mostly in memory. At PostgreSQL's 4, which means a turning disk, a window of a hundredth
        # of a table's rows is joined by reading all of it: at 10,000 changes/s eight times the CPU, more as it grows.
        connection.execute(
            "SELECT set_config('random_page_cost', '1.1', false)"
            " WHERE pg_catalog.current_setting('random_page_cost')::float8 > 1.1"
        )
        # Estimates of large windows are above `jit_above_cost`; compiling their joins takes longer than it saves.
        connection.execute("SET jit = off")
        return _silenced(connection, "SET session_replication_role = replica")


def may_silence(connection: Session) -> bool:
    """Whether this account may switch triggers and foreign keys off for its own session."""
    return _silenced(connection, "SET LOCAL session_replication_role = replica")


def allow_silence(connection: Session) -> str:
    """What an administrator runs so that `may_silence` is true of the session's account."""
    info = native(connection).info
    return silence_statement(quoted(info.user), quoted(info.dbname), info.server_version)


def silence_statement(role: str, database: str, version: int) -> str:
    """The same for a role and a database, whose names are quoted, on a server of that version."""
    if version >= GRANTABLE_SETTINGS:
        return f"GRANT SET ON PARAMETER session_replication_role TO {role}"
    # A superuser may set for every session of a role what the role itself may not.
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
    """In a transaction: a statement that waits longer for a lock raises `LockNotAvailable`."""
    connection.execute(f"SET LOCAL lock_timeout = '{int(seconds * 1000)}ms'")


@contextmanager
def named_lock(connection: Session, name: str) -> Iterator[None]:
    """As of `Sessions.named_lock`."""
    with connection.transaction():
        limit_lock_waits(connection, NAMED_LOCK_SECONDS)
        connection.execute(sql_files.render("postgres", "named_lock"), {"name": name})
    try:
        yield
    finally:
        with suppress(DatabaseError), connection.transaction():  # a session that is lost holds no lock
            connection.execute(sql_files.render("postgres", "named_unlock"), {"name": name})


def be_durable(connection: Session) -> None:
    """In a transaction: no crash undoes its commit, whatever the account says of `synchronous_commit`."""
    connection.execute("SET LOCAL synchronous_commit = on")
