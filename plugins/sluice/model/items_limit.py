"""Limits for ITEMS, beyond which the slave that is furthest behind is dropped."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sluice.configuration.options import ItemsLimit
from sluice.counted import counted, duration
from sluice.model.position import Position

WARNED_FROM = 0.5
"""The share of a limit from which on people are warned."""
SHARE = 0.5
"""By default, changes may take this share of what they and the free space of the disk are together. Where free space
cannot be read, they may be as large as this share of the rest of the database."""
LEAST = 5_000_000_000
"""Bytes that changes may take at least if free space cannot be read."""


@dataclass(frozen=True)
class Room:
    """The room for ITEMS on the master, in bytes."""

    items: int
    """The files of ITEMS."""
    database: int
    """The files of the database, with ITEMS."""
    free: int | None
    """Free space of the disk with ITEMS; None if it cannot be read."""


def default(room: Room) -> tuple[ItemsLimit, str]:
    """The limit if the configuration has none, and its source."""
    if room.free is not None:
        why = f"{SHARE:.0%} of what is free on the master's disk"
        return ItemsLimit(bytes=max(1, int(SHARE * (room.items + room.free)))), why
    rest = max(0, room.database - room.items)
    why = f"{SHARE:.0%} of the database, at least {LEAST / 1e9:g} GB; the free space of the disk cannot be read"
    return ItemsLimit(bytes=max(LEAST, int(SHARE * rest))), why


@dataclass(frozen=True)
class Waiting:
    """The contents of ITEMS."""

    rows: int
    bytes: int
    """The size of these rows, without free space."""
    age: float
    """The age of the position of the furthest slave, in seconds; 0 if it is not known."""

    def share(self, limit: ItemsLimit) -> float:
        """The greatest used share of a limit; 1: it is reached."""
        used = ((self.rows, limit.rows), (self.bytes, limit.bytes), (self.age, limit.age))
        return max((value / most for value, most in used if most is not None), default=0.0)

    def explain(self, limit: ItemsLimit, why: str = "") -> str:
        """The waiting changes with their limits, for people. `why`: where a limit comes from that nobody wrote."""
        parts = []
        if limit.rows is not None:
            parts.append(f"{counted(self.rows, 'change')} of {limit.rows:,}")
        if limit.bytes is not None:
            parts.append(f"{self.bytes / 1e6:,.1f} MB of {limit.bytes / 1e6:,.1f}")
        if limit.age is not None:
            parts.append(f"the oldest for {duration(self.age)} of {duration(limit.age)}")
        return ", ".join(parts) + (f" (by default {why})" if why else "")


def furthest(slaves: Mapping[str, Position | None]) -> str | None:
    """The slave that needs the oldest changes. One whose position is not known comes first. None without slaves."""
    return min(slaves, key=lambda name: _key(slaves[name]), default=None)


def age(now: Position, slaves: Mapping[str, Position | None]) -> float:
    """The age of the oldest known position at `now`, in seconds."""
    times = [datetime.fromisoformat(position.time) for position in slaves.values() if position and position.time]
    return max(0.0, (datetime.fromisoformat(now.time) - min(times)).total_seconds()) if times and now.time else 0.0


def warning(share: float, waiting: str, slave: str | None) -> str:
    """The warning about ITEMS; empty below the share from which on people are warned."""
    if share < WARNED_FROM:
        return ""
    behind = f"Slave {slave} is the furthest behind: bring it up to date, or it is dropped" if slave else "Raise it"
    return f"items_limit is used to {share:.0%}: {waiting}. {behind} when the limit is reached."


def reason(waiting: str) -> str:
    """The reason why a slave was dropped, with the remedy."""
    return (
        f"It was dropped so that the master's disk does not fill: items_limit was reached ({waiting}), and this slave "
        "was the furthest behind. Start the DAG initial_update for it."
    )


def _key(position: Position | None) -> int:
    return -1 if position is None else position.high
