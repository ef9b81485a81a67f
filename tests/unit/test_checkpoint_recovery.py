"""Where an apply with its checkpoint in Redis continues: in doubt at the slave's own position."""

from dataclasses import replace

import pytest

from sluice.model.checkpoint import Checkpoint, Stored, resume
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.snapshot_position import SnapshotPosition

FALLBACK, LATER = SnapshotPosition(10, 10, time="2026-01-01T00:00:00Z"), SnapshotPosition(20, 20)
ROW = Checkpoint("dr1", SlaveState.NORMAL, position=FALLBACK, epoch=5, changes=100)
STORED = Stored(epoch=5, fallback=FALLBACK, position=LATER, changes=90)


def test_the_checkpoint_of_redis_is_used_if_it_fits_the_slaves_row() -> None:
    assert resume(ROW, STORED) == (replace(ROW, position=LATER), "")


@pytest.mark.parametrize(
    ("row", "stored", "doubt"),
    [
        (ROW, None, "holds no checkpoint"),
        (ROW, replace(STORED, epoch=4), "an old one came back"),
        (ROW, replace(STORED, epoch=4, changes=1000), "an old one came back"),
        (ROW, replace(STORED, epoch=6), "the slave is older"),
        (ROW, replace(STORED, changes=101), "the slave is older"),
        (ROW, replace(STORED, fallback=SnapshotPosition(9, 9)), "own row is newer"),
        (ROW, replace(STORED, fallback=replace(FALLBACK, time="2026-01-02T00:00:00Z")), "own row is newer"),
        (replace(ROW, target=LATER, slice_key=7), STORED, "own row is newer"),
    ],
)
def test_in_doubt_the_slaves_own_position_is_used(row: Checkpoint, stored: Stored | None, doubt: str) -> None:
    place, said = resume(row, stored)
    assert place == row
    assert doubt in said


def test_a_slave_without_a_position_has_nothing_to_go_on_from() -> None:
    row = Checkpoint("dr1", SlaveState.UNCONFIGURED)
    assert resume(row, STORED) == (row, "")
