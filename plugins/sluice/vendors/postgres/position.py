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

    On a connection in autocommit. As the first statement of a REPEATABLE READ transaction it is the
    position of that transaction's snapshot, and good as the marker of a block only: its sequence
    values were read too late to bound a window that begins there. Raises `MasterWentBack`, and psycopg's errors.
    """
    statement = sql_files.render("postgres", "position", prefix=prefix.lower, schema=quoted(schema))
    row = connection.execute(statement).fetchone()
    assert row is not None
    low, next_xid, snapshot, high, time, lsn = row
    return Position.of_snapshot(snapshot, low, high, time, next_xid=next_xid, lsn=lsn).after(previous)


def secure(connection: psycopg.Connection[Any], position: Position) -> None:
    """Returns when no crash of the master can undo what `position` saw: before a slave shows it.

    On a connection in autocommit, outside a transaction. Raises psycopg's errors.
    """
    if position.lsn:
        connection.execute(sql_files.render("postgres", "position_secure"), {"lsn": position.lsn})
