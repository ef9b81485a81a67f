"""Finds changes of structure on a PostgreSQL master by comparison, where no event trigger reports them."""

import hashlib
from typing import Any

import psycopg

from sluice.domain.names import Prefix
from sluice.vendors.postgres.connection import quoted

PATIENCE = "500ms"
"""How long a comparison waits in line for a lock; the application's statements queue behind it meanwhile."""


def check(connection: psycopg.Connection[Any], prefix: Prefix, schema: str) -> int:
    """Compares the replicated tables with what was recorded, queues a DDL item for each change; how many.

    One transaction, on a connection in autocommit mode. Where event triggers report the changes
    there is nothing left to find. Raises psycopg's errors.
    """
    row = connection.execute(_check(prefix, schema)).fetchone()
    return int(row[0] or 0) if row else 0


def compare(connection: psycopg.Connection[Any], prefix: Prefix, schema: str) -> int:
    """`check`, but gives way where writers or DDL hold the locks it needs: then it finds nothing this time."""
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{PATIENCE}'")
            row = connection.execute(_check(prefix, schema)).fetchone()
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        return 0
    return int(row[0] or 0) if row else 0


def told(connection: psycopg.Connection[Any], prefix: Prefix, schema: str) -> bool:
    """Whether event triggers of this installation are in place and enabled."""
    names = [f"{prefix.lower}{event}_{_mark(schema)}" for event in ("ddl_end", "ddl_drop")]
    row = connection.execute(
        "SELECT count(*) FROM pg_catalog.pg_event_trigger WHERE evtname = ANY (%s) AND evtenabled <> 'D'", [names]
    ).fetchone()
    return row is not None and row[0] == len(names)


def _mark(schema: str) -> str:
    # As event_triggers.sql makes it: event triggers belong to the database, not to a schema.
    return hashlib.md5(quoted(schema).encode(), usedforsecurity=False).hexdigest()[:8]


def _check(prefix: Prefix, schema: str) -> bytes:
    function = quoted(schema, f"{prefix.lower}check_structure")
    return f"SELECT {function}()".encode()
