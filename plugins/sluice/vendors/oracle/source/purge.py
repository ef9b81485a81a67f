"""Deletes from ITEMS of an Oracle master what every slave has, and stores its records in INFO."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from sluice import sql_files
from sluice.database import positions
from sluice.database.session import Session
from sluice.model.backlog import Backlog
from sluice.model.feed import FeedPosition
from sluice.model.names import Prefix
from sluice.model.position import Position
from sluice.model.purging import SlaveNote
from sluice.vendors.oracle.queue_position import QueuePosition
from sluice.vendors.oracle.session import OracleSession, Value, native
from sluice.vendors.oracle.source.info import Info
from sluice.vendors.oracle.source.queue import listed

DEBUG_KEYS = 1_000_000
"""Lines of DEBUG_TABLE whose keys are further below the last one are purged."""
_RECORD, _SLAVES, _HOLDERS, _FEED = "purged", "slaves", "purge_held", "feed "
"""Names in INFO. A feed's position has the name `feed `, the feed, which contains no blank, a blank, and the table."""


def purge(connection: Session, prefix: Prefix, schema: str, seen: Iterable[Position], *, batch: int = 20_000) -> int:
    """Deletes the changes that all of `seen` cover, up to the lowest of their `low`. Returns how many.

    `seen` has the checkpoint of every slave of the prefix: a missing one loses its changes. Each batch, of so many
    keys, is a transaction. Raises `ValueError` without any.
    """
    del schema
    covered = [QueuePosition.of(position) for position in seen]
    if not covered:
        raise ValueError("purge needs the checkpoint of every slave; without one nothing may be deleted")
    session, info = native(connection), Info(native(connection), prefix)
    low = min(position.low for position in covered)
    opened = listed(frozenset[int]().union(*(position.open for position in covered)))
    ((first,),) = session.run(f"SELECT MIN(i.REPL_KEY) FROM {prefix}ITEMS i")
    total, above = 0, low if first is None else int(first) - 1
    while above < low:
        through = min(above + batch, low)
        values: dict[str, Value] = {"above": above, "through": through, "low": low, "open": opened}
        with session.transaction():
            gone = session.run(sql_files.render("oracle", "purge", prefix=str(prefix)), values).rowcount
            if gone:
                session.run(sql_files.render("oracle", "purge_longs", prefix=str(prefix)))
                info.write(_RECORD, json.dumps([position.text() for position in covered]))
        total, above = total + gone, through
    with session.transaction():
        last = f"SELECT MAX(d.REPL_KEY) - {DEBUG_KEYS} FROM {prefix}DEBUG_TABLE d"
        session.run(f"DELETE FROM {prefix}DEBUG_TABLE WHERE REPL_KEY < ({last})")
    return total


def purged(connection: Session, prefix: Prefix, schema: str) -> list[Position]:
    """The positions of the last purge: what all of them cover may be gone. Empty when nothing ever was purged."""
    return [positions.parse(text) for text in json.loads(_info(connection, prefix).value(_RECORD) or "[]")]


def backlog(connection: Session, prefix: Prefix, schema: str) -> Backlog:
    """The size of ITEMS, by its keys and the last statistics, and who holds the purge."""
    session = native(connection)
    ((changes,),) = session.run(f"SELECT NVL(MAX(i.REPL_KEY) - MIN(i.REPL_KEY) + 1, 0) FROM {prefix}ITEMS i")
    noted = json.loads(_info(connection, prefix).value(_HOLDERS) or "{}")
    size = _bytes(session, prefix, int(changes))
    if not noted:
        return Backlog(int(changes), size)
    return Backlog(int(changes), size, tuple(noted["slaves"]), datetime.fromisoformat(noted["since"]))


def waiting(connection: Session, prefix: Prefix, schema: str) -> tuple[int, int]:
    """The counted changes in ITEMS, and their estimated size in bytes."""
    session = native(connection)
    ((changes,),) = session.run(f"SELECT COUNT(*) FROM {prefix}ITEMS i")
    return int(changes), _bytes(session, prefix, int(changes))


def room(connection: Session, prefix: Prefix, schema: str) -> None:
    """Unknown: a tablespace has limits of its own."""


def note_holders(connection: Session, prefix: Prefix, schema: str, slaves: Iterable[str]) -> None:
    """Records that `slaves` hold the purge, since now unless one of them already did; without any, that it goes on."""
    info, names = _info(connection, prefix), list(slaves)
    with connection.transaction():
        former = json.loads(info.value(_HOLDERS) or "{}")
        if not names:
            info.remove(_HOLDERS)
            return
        since = former["since"] if set(former.get("slaves", ())) & set(names) else datetime.now(UTC).isoformat()
        info.write(_HOLDERS, json.dumps({"slaves": names, "since": since}))


def noted(connection: Session, prefix: Prefix, schema: str) -> dict[str, SlaveNote]:
    """What the last purge recorded about the slaves."""
    return {
        name: SlaveNote(positions.parse(note["position"]) if note["position"] else None, note["dropped"])
        for name, note in json.loads(_info(connection, prefix).value(_SLAVES) or "{}").items()
    }


def note(connection: Session, prefix: Prefix, schema: str, slaves: Mapping[str, SlaveNote]) -> None:
    """Stores it for the next purge."""
    notes = {
        name: {"position": one.position.text() if one.position else None, "dropped": one.dropped}
        for name, one in slaves.items()
    }
    _info(connection, prefix).write(_SLAVES, json.dumps(notes))


def feeds(connection: Session, prefix: Prefix, schema: str) -> list[FeedPosition]:
    """The position up to which each feed has read, by feed and table."""
    entries = [
        (name.removeprefix(_FEED).partition(" "), value)
        for name, value in _info(connection, prefix).all()
        if name.startswith(_FEED)
    ]
    return [FeedPosition(feed, table, positions.parse(value)) for (feed, _, table), value in entries]


def note_feed(connection: Session, prefix: Prefix, schema: str, read: FeedPosition) -> None:
    """Stores the position up to which a feed has read."""
    _info(connection, prefix).write(f"{_FEED}{read.feed} {read.table}", read.position.text())


def drop_feed(connection: Session, prefix: Prefix, schema: str, feed: str) -> int:
    """Deletes a feed. Returns of how many tables."""
    info = _info(connection, prefix)
    names = [name for name, _ in info.all() if name.startswith(f"{_FEED}{feed} ")]
    for name in names:
        info.remove(name)
    return len(names)


def _info(connection: Session, prefix: Prefix) -> Info:
    return Info(native(connection), prefix)


def _bytes(session: OracleSession, prefix: Prefix, changes: int) -> int:
    """The estimated size of so many changes in bytes, by the last statistics of ITEMS."""
    text = "SELECT t.AVG_ROW_LEN FROM USER_TABLES t WHERE t.TABLE_NAME = :name"
    row = session.run(text, {"name": f"{prefix}ITEMS"}).fetchone()
    return changes * int(row[0] or 0) if row else 0
