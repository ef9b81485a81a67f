"""What ITEMS holds, and who keeps it from being purged."""

from dataclasses import dataclass
from datetime import datetime

from sluice.counted import counted


@dataclass(frozen=True)
class Backlog:
    """ITEMS of a prefix at one moment."""

    changes: int
    """About how many: REPL_KEYs from the oldest change to the newest; some may be missing between."""
    bytes: int
    """On disk, indexes included."""
    held_by: tuple[str, ...] = ()
    """Slaves that could not be asked, or not yet, what they have; nothing is purged meanwhile."""
    held_since: datetime | None = None
    """By the master's clock, when housekeeping met the first of them."""

    def __str__(self) -> str:
        amount = f"ITEMS has about {counted(self.changes, 'change')}, {self.bytes / 1e6:,.1f} MB"
        if not self.held_by:
            return amount
        since = f" since {self.held_since:%Y-%m-%d %H:%M:%S} UTC" if self.held_since else ""
        return f"{amount}; the purge is held by {', '.join(self.held_by)}{since}"
