"""What is remembered of slaves between two purges, and which slaves a purge has left behind."""

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.model.position import Position


@dataclass(frozen=True)
class SlaveNote:
    """Of one slave, kept on the master."""

    position: Position | None = None
    """What it had applied, surely, when it last answered."""
    dropped: str = ""
    """Why it was dropped while it did not answer; empty: it was not."""


def lost(applied: Position | None, purged: Iterable[Position]) -> bool:
    """Whether a slave that has `applied` needs changes that may be gone.

    `purged`: positions of the last purge; what all of them cover may be gone.
    """
    seen = list(purged)
    return applied is None or (bool(seen) and not any(applied.covers_all_of(position) for position in seen))
