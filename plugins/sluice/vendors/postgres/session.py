"""What a session that applies to a PostgreSQL slave sets first."""

from typing import Any

import psycopg

from sluice.vendors.postgres.connection import literal

ORIGIN = "sluice.origin"
"""Capture triggers stay quiet where this setting is not empty, so that replication does not loop."""


def origin(name: str) -> dict[str, str]:
    """Settings of a connection whose changes come from the replication `name`."""
    return {ORIGIN: name}


def begin_applying(connection: psycopg.Connection[Any], origin: str) -> bool:
    """Names the origin of this session's changes and switches the slave's own triggers off.

    True when the account may switch them off. Otherwise triggers and foreign keys act on every
    change; the latter are then checked at commit where they are deferrable.
    """
    with connection.transaction():
        connection.execute(f"SET {ORIGIN} = {literal(origin)}")
        # A large window is joined with its table in one statement; PostgreSQL's 4 MB spill to files, a third slower.
        connection.execute("SET work_mem = '128MB'")
        try:
            with connection.transaction():
                connection.execute("SET session_replication_role = replica")
        except psycopg.errors.InsufficientPrivilege:
            return False
    return True


def may_silence(connection: psycopg.Connection[Any]) -> bool:
    """Whether this account may switch triggers and foreign keys off for its own session."""
    try:
        with connection.transaction():
            connection.execute("SET LOCAL session_replication_role = replica")
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True
