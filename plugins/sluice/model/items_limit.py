"""How much may wait in ITEMS before the slave that is furthest behind is dropped."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sluice.configuration.options import ItemsLimit
from sluice.counted import counted, duration
from sluice.model.position import Position

WARNED_FROM = 0.5
"""The share of a limit from which on people are warned."""


@dataclass(frozen=True)
class Waiting:
    """What ITEMS holds."""

    rows: int
    bytes: int
    """Of these rows, without free space."""
    age: float
    """Seconds from what the furthest slave has to now; 0 where that is not known."""

    def share(self, limit: ItemsLimit) -> float:
        """The greatest share of a limit that is used; 1 is full."""
        used = ((self.rows, limit.rows), (self.bytes, limit.bytes), (self.age, limit.age))
        return max((value / most for value, most in used if most is not None), default=0.0)

    def explain(self, limit: ItemsLimit) -> str:
        """What waits beside what may wait."""
        parts = []
        if limit.rows is not None:
            parts.append(f"{counted(self.rows, 'change')} of {limit.rows:,}")
        if limit.bytes is not None:
            parts.append(f"{self.bytes / 1e6:,.1f} MB of {limit.bytes / 1e6:,.1f}")
        if limit.age is not None:
            parts.append(f"the oldest for {duration(self.age)} of {duration(limit.age)}")
        return ", ".join(parts)


def furthest(slaves: Mapping[str, Position | None]) -> str | None:
    """The slave that needs the oldest changes. One whose position is not known comes first; None without any."""
    return min(slaves, key=lambda name: _key(slaves[name]), default=None)


def age(now: Position, slaves: Mapping[str, Position | None]) -> float:
    """Seconds from the oldest known position to `now`."""
    times = [datetime.fromisoformat(position.time) for position in slaves.values() if position and position.time]
    return max(0.0, (datetime.fromisoformat(now.time) - min(times)).total_seconds()) if times and now.time else 0.0


def warning(share: float, waiting: str, slave: str | None) -> str:
    """What people are told of ITEMS, empty below the share from which on they are warned."""
    if share < WARNED_FROM:
        return ""
    behind = f"Slave {slave} is the furthest behind: bring it up to date, or it is dropped" if slave else "Raise it"
    return f"items_limit is used to {share:.0%}: {waiting}. {behind} when the limit is reached."


def reason(waiting: str) -> str:
    """Why a slave was dropped, with the remedy."""
    return (
        f"It was dropped so that the master's disk does not fill: items_limit was reached ({waiting}), and this slave "
        "was the furthest behind. Start the DAG initial_update for it."
    )


def _key(position: Position | None) -> int:
    return -1 if position is None else position.high
