"""Taking positions on a PostgreSQL master."""

from typing import Any

import psycopg

from sluice import sql_files
from sluice.domain.names import Prefix
from sluice.domain.position import Position
from sluice.vendors.postgres.connection import quoted


def take(
    connection: psycopg.Connection[Any], prefix: Prefix, schema: str, previous: Position | None = None
) -> Position:
    """The position at which the master stands now, floors inherited from `previous`.

    In a READ COMMITTED transaction or outside of one. In a REPEATABLE READ transaction it is the
    position of that transaction's snapshot (the marker of a block), provided the call is its
    first statement. Raises `MasterWentBack`, and psycopg's errors.
    """
    statement = sql_files.render("postgres", "position", prefix=prefix.lower, schema=quoted(schema))
    row = connection.execute(statement).fetchone()
    assert row is not None
    low, snapshot, high, time = row
    return Position.of_snapshot(snapshot, low, high, time).after(previous)
