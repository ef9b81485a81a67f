"""Deletes from ITEMS what every slave has."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sluice import sql_files
from sluice.database import positions
from sluice.database.session import Session
from sluice.errors import SluiceError
from sluice.model.backlog import Backlog
from sluice.model.feed import FeedPosition
from sluice.model.items_limit import Room
from sluice.model.names import Prefix
from sluice.model.position import Position
from sluice.model.purging import SlaveNote
from sluice.vendors.postgres.connection import literal, native, quoted
from sluice.vendors.postgres.snapshot_position import SnapshotPosition

log = logging.getLogger("sluice.purge")

DEBUG_LINES = 100_000
"""The last lines of DEBUG_TABLE, which a purge keeps."""
_RECORD = "purged"
_SLAVES = "slaves"
_FEED = "feed "
"""The beginning of the name of a feed's position; the feed, which has no blanks, and the table follow."""


def purge(
    connection: Session,
    prefix: Prefix,
    schema: str,
    positions: Iterable[Position],
    *,
    batch: int = 20_000,
) -> int:
    """Deletes the changes that all of `positions` cover, each batch in one transaction. Returns how many. The last
    `DEBUG_LINES` of DEBUG_TABLE stay.

    `positions` must have the checkpoint of every slave of the prefix; a slave without one loses changes. Raises
    `ValueError` without any.
    """
    seen = [SnapshotPosition.of(position).restart for position in positions]
    if not seen:
        raise ValueError("purge needs the checkpoint of every slave; without one nothing may be deleted")
    through = min(position.high for position in seen)
    function = quoted(schema, f"{prefix.lower}purge")
    total, above = 0, 0
    while True:
        with connection.transaction():
            row = connection.execute(
                f"SELECT deleted, last_key FROM {function}(%s::pg_snapshot[], %s, %s, %s)",
                [[position.snapshot for position in seen], above, through, batch],
            ).fetchone()
            assert row is not None
            deleted, last = int(row[0]), row[1]
            if deleted:
                _record(connection, prefix, schema, seen)
        total += deleted
        if deleted < batch:
            break
        above = last
    with connection.transaction():
        names = {"prefix": prefix.lower, "schema": quoted(schema)}
        connection.execute(sql_files.render("postgres", "debug_purge", kept=str(DEBUG_LINES), **names).encode())
    return total


def purged(connection: Session, prefix: Prefix, schema: str) -> list[Position]:
    """The positions of the last purge, which deleted what all of them cover; empty without any purge.

    A slave that covers one of them has lost nothing. One that does not was restored from a backup or a standby, and
    changes that it needs are deleted.
    """
    return parsed(_value(connection, prefix, schema, _RECORD))


def parsed(record: str | None) -> list[Position]:
    """The positions in the record of the last purge."""
    return [positions.parse(text) for text in json.loads(record or "[]")]


def backlog(connection: Session, prefix: Prefix, schema: str) -> Backlog:
    """The size of ITEMS, and the slaves noted as holding the purge back. Counts some 100,000 rows at most."""
    row = connection.execute(
        sql_files.render("postgres", "backlog", prefix=prefix.lower, schema=quoted(schema))
    ).fetchone()
    assert row is not None
    changes, size, noted = row
    if noted is None:
        return Backlog(changes, size)
    values = json.loads(noted)
    return Backlog(changes, size, tuple(values["slaves"]), datetime.fromisoformat(values["since"]))


def note_holders(connection: Session, prefix: Prefix, schema: str, slaves: Iterable[str]) -> None:
    """Notes that `slaves` hold the purge back, since now unless one of them did before. None: deletes the note."""
    connection.execute(
        sql_files.render("postgres", "backlog_held", prefix=prefix.lower, schema=quoted(schema)),
        {"slaves": list(slaves)},
    )


def waiting(connection: Session, prefix: Prefix, schema: str) -> tuple[int, int]:
    """The exact number of changes in ITEMS, and their approximate bytes."""
    row = connection.execute(
        sql_files.render("postgres", "items_waiting", prefix=prefix.lower, schema=quoted(schema))
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def room(connection: Session, prefix: Prefix, schema: str) -> Room:
    """The room for ITEMS. Only an account that may run programs on the server learns how much of the disk is free."""
    row = connection.execute(
        sql_files.render("postgres", "items_room", prefix=prefix.lower, schema=quoted(schema))
    ).fetchone()
    assert row is not None
    items, database, file = row
    return Room(int(items), int(database), _free(connection, file) if file else None)


def _free(connection: Session, file: str) -> int | None:
    """Free bytes of the disk with `file` of the server, as `df` there says; None where it does not."""
    try:
        with native(connection).transaction(force_rollback=True):
            connection.execute("CREATE TEMPORARY TABLE sluice_free (line text) ON COMMIT DROP")
            connection.execute(f"COPY pg_temp.sluice_free FROM PROGRAM {literal(f'df -Pk {file}')}")
            rows = connection.execute("SELECT line FROM pg_temp.sluice_free").fetchall()
    except SluiceError as error:
        log.debug("the free space of the master's disk cannot be read: %s", error)
        return None
    words = rows[-1][0].split() if rows else []
    return int(words[3]) * 1024 if len(words) > 3 and words[3].isdigit() else None


def noted(connection: Session, prefix: Prefix, schema: str) -> dict[str, SlaveNote]:
    """The last purge's notes about the slaves."""
    return {
        name: SlaveNote(positions.parse(note["position"]) if note["position"] else None, note["dropped"])
        for name, note in json.loads(_value(connection, prefix, schema, _SLAVES) or "{}").items()
    }


def note(connection: Session, prefix: Prefix, schema: str, slaves: Mapping[str, SlaveNote]) -> None:
    """Stores notes about the slaves for the next purge."""
    notes = {
        name: {"position": one.position.text() if one.position else None, "dropped": one.dropped}
        for name, one in slaves.items()
    }
    _write(connection, prefix, schema, _SLAVES, json.dumps(notes))


def feeds(connection: Session, prefix: Prefix, schema: str) -> list[FeedPosition]:
    """The position that each feed has read each table up to."""
    info = quoted(schema, f"{prefix.lower}info")
    rows = connection.execute(
        f"SELECT name, value FROM {info} WHERE starts_with(name, %s) ORDER BY name", [_FEED]
    ).fetchall()
    entries = [(name.removeprefix(_FEED).partition(" "), value) for name, value in rows]
    return [FeedPosition(feed, table, positions.parse(value)) for (feed, _, table), value in entries]


def note_feed(connection: Session, prefix: Prefix, schema: str, read: FeedPosition) -> None:
    """Stores the position that a feed has read a table up to."""
    _write(connection, prefix, schema, f"{_FEED}{read.feed} {read.table}", read.position.text())


def drop_feed(connection: Session, prefix: Prefix, schema: str, feed: str) -> int:
    """Deletes a feed's positions. Returns of how many tables."""
    info = quoted(schema, f"{prefix.lower}info")
    statement = f"DELETE FROM {info} WHERE starts_with(name, %s)"
    return int(connection.execute(statement, [f"{_FEED}{feed} "]).rowcount)


def _record(connection: Session, prefix: Prefix, schema: str, positions: Sequence[Position]) -> None:
    _write(connection, prefix, schema, _RECORD, json.dumps([position.text() for position in positions]))


def _value(connection: Session, prefix: Prefix, schema: str, name: str) -> str | None:
    info = quoted(schema, f"{prefix.lower}info")
    row = connection.execute(f"SELECT value FROM {info} WHERE name = %s", [name]).fetchone()
    return str(row[0]) if row else None


def _write(connection: Session, prefix: Prefix, schema: str, name: str, value: str) -> None:
    connection.execute(
        f"INSERT INTO {quoted(schema, f'{prefix.lower}info')} (name, value) VALUES (%s, %s)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        [name, value],
    )
