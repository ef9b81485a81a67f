"""Every shape of table in normal mode: strict, yet nothing that a master does is taken for drift.

With an account that may disable the slave's foreign keys and triggers, and with one under which they act.
"""

from collections.abc import Callable

import pytest

from sluice.database.conflicts import RowStays
from tests.rig.rig import Rig
from tests.scenarios.apply.shapes import AGAIN, SHAPES

ORDINARY = [name for name in SHAPES if name != "triggers of the slave"]
"""With the others, the trigger of this one does what it is there for: it refuses every change."""

IN_THE_WAY = (
    "keys that cascade",
    "values that cascade",
    "a tree whose keys cascade",
    "deferrable values of rows that others refer to",
)
"""Where rows that came later are in the way of those that come again, and may not go because others refer to them."""


def cases(*windows: str) -> pytest.MarkDecorator:
    """Every shape with both accounts (`ordinary`: no superuser) and all kinds of windows."""
    return pytest.mark.parametrize(
        ("shape", "ordinary", "way"),
        [
            (shape, ordinary, way)
            for way in windows
            for ordinary in (False, True)
            for shape in (ORDINARY if ordinary else SHAPES)
        ],
    )


@pytest.mark.one_in(154)
@cases("one a transaction", "one", "one, staged")
def test_a_history_is_applied_as_it_happened(rig: Callable[..., Rig], shape: str, ordinary: bool, way: str) -> None:
    staged = way == "one, staged"
    pair = rig(SHAPES[shape].tables, slave_role=ordinary, stage=1 if staged else 20_000)
    pair.slave.execute(SHAPES[shape].slave or "SELECT")
    first, *rest = SHAPES[shape].history
    pair.master.execute(first.encode())
    with pair.apply() as running:
        pair.await_normal_mode(running)
        if way == "one a transaction":
            for transaction in rest:
                play(pair, transaction)
                pair.await_current()
        else:
            with pair.master.transaction():
                for transaction in rest:
                    pair.master.execute(transaction.encode())
            pair.await_current()
        assert running.loop.mode.on is False
        assert pair.differences() == {}


@pytest.mark.one_in(98)
@cases("one a transaction", "one")
def test_safe_mode_follows_a_history_as_well(rig: Callable[..., Rig], shape: str, ordinary: bool, way: str) -> None:
    pair = rig(SHAPES[shape].tables, slave_role=ordinary, safe=True)
    pair.slave.execute(SHAPES[shape].slave or "SELECT")
    first, *rest = SHAPES[shape].history
    pair.master.execute(first.encode())
    with pair.apply() as running:
        pair.await_current()
        for transaction in rest if way == "one a transaction" else ["; ".join(rest)]:
            play(pair, transaction)
            pair.await_current()
            assert pair.differences() == {}
        assert running.loop.mode.reason == "configured"


@pytest.mark.long
@pytest.mark.parametrize("shape", [name for name in AGAIN if name in ORDINARY])
def test_applied_changes_come_again_under_acting_foreign_keys(rig: Callable[..., Rig], shape: str) -> None:
    pair = rig(SHAPES[shape].tables, slave_role=True)
    places = []
    with pair.apply():
        for transaction in SHAPES[shape].history:
            places.append(pair.checkpoint.position)
            play(pair, transaction)
            pair.await_current()
    for place in places:
        pair.set_back(place)
        with pair.apply():
            try:
                pair.await_current()
            except RowStays:
                assert shape in IN_THE_WAY
        # Refused or not: no row is lost.
        assert pair.differences() == {}


def play(pair: Rig, transaction: str) -> None:
    with pair.master.transaction():
        pair.master.execute(transaction.encode())
