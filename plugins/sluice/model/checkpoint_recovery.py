"""Where an apply goes on whose checkpoint is kept in Redis (`checkpoint: redis`), decided without any I/O.

The slave's own row still says who may write (epoch), what the data is worth (state), how many changes it holds,
all in the transactions that carry the data, and an older position, the *anchor*. It is moved by what is rare: a
start, a move of the state, a slice, a TRUNCATE or a change of a definition, a change that is set aside or applied on
request, and every `ANCHOR_INTERVALS`. Redis
holds the newer position. Whatever is wrong with it, going on from the anchor is right: what lies between comes
again, in safe mode, and ITEMS is purged only behind the anchor.
"""

from dataclasses import dataclass, replace

from sluice.counted import counted
from sluice.model.checkpoint import Checkpoint
from sluice.model.position import Position

ANCHOR_INTERVALS = 20
"""So many checkpoint intervals at most lie between two anchors: ten minutes, if an interval is 30 s."""


@dataclass(frozen=True)
class Stored:
    """The position of a slave as Redis keeps it, and by what it is recognised."""

    epoch: int
    """Of the apply that wrote it."""
    anchor: Position
    """The position in the slave's row when it was written."""
    position: Position
    changes: int
    """Applied when it was written, as the slave's row counts them."""


def resume(row: Checkpoint, stored: Stored | None) -> tuple[Checkpoint, str]:
    """From where to go on: the slave's row, with the position of `stored` where that can be trusted.

    The text says why it could not be; empty where it was, or where there is nothing to go on from.
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
    if row.position is None or row.catching_up or stored.anchor.text() != row.position.text():
        return "the slave's own row is newer than the checkpoint in Redis"
    return ""
