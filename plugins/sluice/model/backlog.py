"""The contents of ITEMS, and which slaves hold the purge."""

from dataclasses import dataclass
from datetime import datetime

from sluice.counted import counted


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
