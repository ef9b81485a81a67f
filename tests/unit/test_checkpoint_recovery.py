"""Where an apply goes on whose checkpoint is in Redis: every doubt ends at the slave's own position."""

from dataclasses import replace

import pytest

from sluice.model.checkpoint import Checkpoint
from sluice.model.checkpoint_recovery import Stored, resume
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.snapshot_position import SnapshotPosition

ANCHOR, LATER = SnapshotPosition(10, 10, time="2026-01-01T00:00:00Z"), SnapshotPosition(20, 20)
ROW = Checkpoint("dr1", SlaveState.NORMAL, position=ANCHOR, epoch=5, changes=100)
STORED = Stored(epoch=5, anchor=ANCHOR, position=LATER, changes=90)


def test_what_redis_says_is_taken_where_it_goes_with_the_slaves_row() -> None:
    assert resume(ROW, STORED) == (replace(ROW, position=LATER), "")


@pytest.mark.parametrize(
    ("row", "stored", "doubt"),
    [
        (ROW, None, "holds no checkpoint"),
        (ROW, replace(STORED, epoch=4), "an old one came back"),
        (ROW, replace(STORED, epoch=4, changes=1000), "an old one came back"),
        (ROW, replace(STORED, epoch=6), "the slave is older"),
        (ROW, replace(STORED, changes=101), "the slave is older"),
        (ROW, replace(STORED, anchor=SnapshotPosition(9, 9)), "own row is newer"),
        (ROW, replace(STORED, anchor=replace(ANCHOR, time="2026-01-02T00:00:00Z")), "own row is newer"),
        (replace(ROW, target=LATER, slice_key=7), STORED, "own row is newer"),
    ],
)
def test_every_doubt_ends_at_the_slaves_own_position(row: Checkpoint, stored: Stored | None, doubt: str) -> None:
    place, said = resume(row, stored)
    assert place == row
    assert doubt in said


def test_a_slave_without_a_position_has_nothing_to_go_on_from() -> None:
    row = Checkpoint("dr1", SlaveState.UNCONFIGURED)
    assert resume(row, STORED) == (row, "")
