"""Where an apply continues whose checkpoint is kept in Redis (`checkpoint: redis`). No I/O.

The slave's own row has the epoch, the state and the number of changes, written in the transactions of the data, and an
older position, the *fallback position*. It advances with rare events: a start, a change of the state, a slice, a
TRUNCATE or a change of a definition, a rejected change or one applied on request, and every `FALLBACK_INTERVALS`. Redis
has the newer position. If that is wrong or missing, the apply continues from the fallback position: the changes in
between come again, in safe mode, and ITEMS is purged only up to the fallback position.
"""

from dataclasses import dataclass, replace

from sluice.counted import counted
from sluice.model.checkpoint import Checkpoint
from sluice.model.position import Position

FALLBACK_INTERVALS = 20
"""The highest number of checkpoint intervals between two fallback positions: ten minutes, if an interval is 30 s."""


@dataclass(frozen=True)
class Stored:
    """The position of a slave in Redis, with the values that identify it."""

    epoch: int
    """The epoch of the apply that wrote it."""
    fallback: Position
    """The position in the slave's row when it was written."""
    position: Position
    changes: int
    """The number of applied changes when it was written, as in the slave's row."""


def resume(row: Checkpoint, stored: Stored | None) -> tuple[Checkpoint, str]:
    """The checkpoint from which to continue: the slave's row, with the position of `stored` if that can be trusted.

    The text is the reason why it cannot be trusted; empty if it can, or if there is nothing to continue from.
    """
    if row.position is None:
        return row, ""
    doubt = _doubt(row, stored)
    if stored is None or doubt:
        return row, doubt
    return replace(row, position=stored.position), ""


def _doubt(row: Checkpoint, stored: Stored | None) -> str:
    if stored is None:
        return "Redis holds no checkpoint of this slave: there never was one, or Redis was emptied"
    if stored.epoch > row.epoch or (stored.epoch == row.epoch and stored.changes > row.changes):
        return (
            f"the slave is older than its checkpoint in Redis (epoch {row.epoch} and "
            f"{counted(row.changes, 'change')} against epoch {stored.epoch} and {stored.changes}): "
            "it was restored from a backup or failed over"
        )
    if stored.epoch < row.epoch:
        return f"the checkpoint in Redis is of epoch {stored.epoch}, the slave's is {row.epoch}: an old one came back"
    # By their texts, clock included: a position taken anew may equal an old one on a quiet master.
    if row.position is None or row.catching_up or stored.fallback.text() != row.position.text():
        return "the slave's own row is newer than the checkpoint in Redis"
    return ""
