"""Takes positions on a PostgreSQL master."""

import logging
from dataclasses import replace

from sluice import sql_files
from sluice.database.session import Session
from sluice.model import server_identity
from sluice.model.names import Prefix
from sluice.model.position import Position
from sluice.model.server_identity import Origin
from sluice.vendors.postgres.connection import PostgresSession, quoted
from sluice.vendors.postgres.snapshot_position import SnapshotPosition

log = logging.getLogger("sluice.position")


def take(connection: Session, prefix: Prefix, schema: str, previous: Position | None = None) -> SnapshotPosition:
    """The master's present position, with floors inherited from `previous`.

    On a connection in autocommit. As the first statement of a REPEATABLE READ transaction it returns the position of
    that transaction's snapshot. Such a position may be the marker of a block, but not the beginning of a window,
    because its sequence values were read too late. Raises `MasterWentBack`, `MasterReplaced`,
    `FailOverUnproven`, and psycopg's errors.
    """
    statement = sql_files.render("postgres", "position", prefix=prefix.lower, schema=quoted(schema))
    row = connection.execute(statement).fetchone()
    assert row is not None
    low, next_xid, snapshot, high, time, lsn, system, timeline = row
    origin = Origin(system, timeline, server_identity.place(lsn))
    before = None if previous is None else SnapshotPosition.of(previous)
    if before is not None and before.origin is not None and not server_identity.same_server(before.origin, origin):
        _prove(connection, before.origin, origin)
    now = SnapshotPosition.of_snapshot(snapshot, low, high, time, next_xid=next_xid, lsn=lsn)
    return replace(now, origin=origin).after(before)


def beginning(connection: Session, prefix: Prefix, schema: str, after: int | None) -> Position | None:
    """None: only an initial update brings rows that are older than the capture."""
    return None


def window_end(connection: Session, prefix: Prefix, schema: str, previous: Position, changes: int) -> SnapshotPosition:
    """The master's present position, for any number of `changes`, because ITEMS does not record states in between."""
    del changes
    return take(connection, prefix, schema, previous)


def nothing_committed(connection: Session, since: Position) -> bool:
    """Whether no transaction has ended on the server since the position `since` was taken."""
    assert isinstance(connection, PostgresSession)
    return connection.poll(sql_files.render("postgres", "snapshot_now")) == SnapshotPosition.of(since).snapshot


def _prove(connection: Session, former: Origin, now: Origin) -> None:
    row = connection.execute(sql_files.render("postgres", "position_promoted")).fetchone()
    assert row is not None
    readable, replayed = row
    history = None
    if readable:
        statement = sql_files.render("postgres", "position_history")
        first = connection.execute(statement, {"file": f"pg_wal/{now.timeline:08X}.history"}).fetchone()
        history = first[0] if first else None
    left = server_identity.switches(history) if history is not None else None
    server_identity.prove(former, now, left, server_identity.place(replayed) if replayed else None)
    log.warning("The master failed over, from %s to %s. All that was seen is there: applying goes on", former, now)


def secure(connection: Session, position: Position) -> None:
    """Waits until no crash of the master can undo what `position` covers; called before a slave shows it.

    On a connection in autocommit, outside a transaction. Raises psycopg's errors.
    """
    lsn = SnapshotPosition.of(position).lsn
    if lsn:
        connection.execute(sql_files.render("postgres", "position_secure"), {"lsn": lsn})
