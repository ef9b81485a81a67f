"""What waits in ITEMS, who holds the purge, and which slaves lost changes by one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sluice.counted import counted
from sluice.model.position import Position

# The contents of ITEMS, and which slaves hold the purge.


@dataclass(frozen=True)
class Backlog:
    """ITEMS of a prefix at one moment."""

    changes: int
    """An estimate if there are many."""
    bytes: int
    """The size on disk, with indexes."""
    held_by: tuple[str, ...] = ()
    """Slaves whose position is not known, because they do not answer or have none yet; nothing is purged meanwhile."""
    held_since: datetime | None = None
    """When housekeeping noticed the first of them, by the master's clock."""

    def __str__(self) -> str:
        amount = f"ITEMS has about {counted(self.changes, 'change')}, {self.bytes / 1e6:,.1f} MB"
        if not self.held_by:
            return amount
        since = f" since {self.held_since:%Y-%m-%d %H:%M:%S} UTC" if self.held_since else ""
        return f"{amount}; the purge is held by {', '.join(self.held_by)}{since}"


@dataclass(frozen=True)
class SlaveNote:
    """The record of one slave, on the master."""

    position: Position | None = None
    """What it had durably applied when it last answered."""
    dropped: str = ""
    """Why it was dropped while it did not answer; empty: it was not."""


def lost(applied: Position | None, purged: Iterable[Position]) -> bool:
    """Whether a slave with the position `applied` may need purged changes.

    `purged`: the positions of the last purge; changes that all of them cover may be gone.
    """
    seen = list(purged)
    return applied is None or (bool(seen) and not any(applied.covers_all_of(position) for position in seen))
