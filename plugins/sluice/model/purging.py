"""What the master stores about slaves between two purges, and which slaves lost changes by a purge."""

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.model.position import Position


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
