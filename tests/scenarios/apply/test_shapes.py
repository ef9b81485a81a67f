"""Every shape of table in normal mode: strict, yet nothing that a master does is taken for drift.

With an account that may switch the slave's foreign keys and triggers off, and with one on which they act.
"""

from collections.abc import Callable

import pytest

from sluice.vendors.postgres.replay import RowStays
from tests.scenarios.apply.rig import Rig
from tests.scenarios.apply.shapes import SHAPES

ORDINARY = [name for name in SHAPES if name != "triggers of the slave"]
"""With the others, the trigger of this one does what it is there for: it refuses every change."""

IN_THE_WAY = (
    "keys that cascade",
    "values that cascade",
    "a tree whose keys cascade",
    "deferrable values of rows that others refer to",
)
"""Where rows that came later are in the way of those that come again, and may not go because others refer to them."""


@pytest.mark.parametrize("windows", ["one a transaction", pytest.param("one", marks=pytest.mark.long), "one, staged"])
@pytest.mark.parametrize(
    ("shape", "ordinary"), [*((name, False) for name in SHAPES), *((name, True) for name in ORDINARY)]
)
def test_a_history_is_applied_as_it_happened(rig: Callable[..., Rig], shape: str, ordinary: bool, windows: str) -> None:
    staged = windows == "one, staged"
    pair = rig(SHAPES[shape].tables, slave_role=ordinary, stage=1 if staged else 20_000)
    pair.slave.execute(SHAPES[shape].slave or "SELECT")
    first, *rest = SHAPES[shape].history
    pair.master.execute(first.encode())
    with pair.apply() as running:
        pair.await_normal_mode(running)
        if windows == "one a transaction":
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


@pytest.mark.parametrize("windows", [pytest.param("one a transaction", marks=pytest.mark.long), "one"])
@pytest.mark.parametrize(
    ("shape", "ordinary"), [*((name, False) for name in SHAPES), *((name, True) for name in ORDINARY)]
)
def test_safe_mode_follows_a_history_as_well(rig: Callable[..., Rig], shape: str, ordinary: bool, windows: str) -> None:
    pair = rig(SHAPES[shape].tables, slave_role=ordinary, safe=True)
    pair.slave.execute(SHAPES[shape].slave or "SELECT")
    first, *rest = SHAPES[shape].history
    pair.master.execute(first.encode())
    with pair.apply() as running:
        pair.await_current()
        for transaction in rest if windows == "one a transaction" else ["; ".join(rest)]:
            play(pair, transaction)
            pair.await_current()
            assert pair.differences() == {}
        assert running.loop.mode.reason == "configured"


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(name, marks=() if name in IN_THE_WAY or place % 4 == 0 else pytest.mark.long)
        for place, name in enumerate(name for name in ORDINARY if SHAPES[name].again)
    ],
)
def test_what_was_applied_comes_again_where_foreign_keys_act(rig: Callable[..., Rig], shape: str) -> None:
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
