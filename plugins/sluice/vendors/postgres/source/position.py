"""Takes positions on a PostgreSQL master."""

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace

from sluice import sql_files
from sluice.database.session import Session
from sluice.model import server_identity
from sluice.model.names import Prefix
from sluice.model.position import Position
from sluice.model.server_identity import MasterReplaced, Origin
from sluice.vendors.postgres.connection import PostgresSession, quoted
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source.purge import parsed, purged

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
    if before is not None:
        _expect_history(connection, prefix, schema, before, origin)
    now = SnapshotPosition.of_snapshot(snapshot, low, high, time, next_xid=next_xid, lsn=lsn)
    assert isinstance(connection, PostgresSession)
    return replace(now, origin=origin, run=connection.run).after(before)


def expect_continued(connection: Session, prefix: Prefix, schema: str, positions: Iterable[Position]) -> None:
    """Raises `MasterReplaced` where the history of the master does not contain what `positions` have seen.

    The log's end alone does not tell: a master whose files were restored from a snapshot soon comes past the places,
    transactions and keys that it had before.
    """
    seen = [SnapshotPosition.of(position).restart for position in positions]
    if not seen:
        return
    now = take(connection, prefix, schema)
    recorded = _recorded(connection, prefix, schema, {position.run for position in seen if position.run})
    origin = now.origin
    assert origin is not None
    for position in seen:
        former = position.origin
        _expect_history(connection, prefix, schema, position, origin)
        now.after(position)
        # A promoted server is proved by its timeline: it may lack the last record, and have all that was seen.
        if former is None or not position.run or former.timeline != origin.timeline or former.system != origin.system:
            continue
        high, _ = recorded.get(position.run, (0, False))
        if high < position.high:
            raise MasterReplaced(
                former, origin, f"it has no record of its state of {position.time}, which was seen, as after a restore "
                "of its files from a snapshot"
            )  # fmt: skip


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


def _expect_history(connection: Session, prefix: Prefix, schema: str, before: SnapshotPosition, now: Origin) -> None:
    """Raises `MasterReplaced`, `FailOverUnproven` where the log of the server at `now` does not continue that of
    `before`."""
    former = before.origin
    if former is None or former == now:
        return
    if former.system != now.system and _upgraded(connection, prefix, schema, before):
        return
    if not server_identity.same_server(former, now):
        _prove(connection, former, now)


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


def secure(connection: Session, prefix: Prefix, schema: str, position: Position) -> list[Position]:
    """Waits until no crash of the master can undo what `position` covers, and a restore is noticed; called before a
    slave shows it. Returns the positions of the last purge.

    On a connection in autocommit, outside a transaction. Raises psycopg's errors.
    """
    position = SnapshotPosition.of(position)
    if not position.run or position.marked is not None:
        return purged(connection, prefix, schema)  # of an earlier release; nothing starts again from there
    assert isinstance(connection, PostgresSession)
    names = {"prefix": prefix.lower, "schema": quoted(schema)}
    row = connection.execute(
        sql_files.render("postgres", "position_record", **names), {"run": position.run, "high": position.high}
    ).fetchone()
    assert row is not None
    if not connection.pruned:
        connection.execute(sql_files.render("postgres", "position_records_prune", **names))
        connection.pruned = True
    return parsed(row[0])


def _upgraded(connection: Session, prefix: Prefix, schema: str, former: SnapshotPosition) -> bool:
    """Whether another cluster has the files of the former one, transactions included, as after `pg_upgrade`."""
    if not former.run:
        return False
    high, same = _recorded(connection, prefix, schema, {former.run}).get(former.run, (0, False))
    return same and high >= former.high


def _recorded(connection: Session, prefix: Prefix, schema: str, runs: Collection[str]) -> dict[str, tuple[int, bool]]:
    """By session: the highest REPL_KEY recorded, and whether its row is no copy."""
    if not runs:
        return {}
    statement = sql_files.render("postgres", "position_recorded", prefix=prefix.lower, schema=quoted(schema))
    rows = connection.execute(statement, {"runs": list(runs)}).fetchall()
    return {run: (high, same) for run, high, same in rows}
