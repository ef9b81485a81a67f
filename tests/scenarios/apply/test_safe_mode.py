"""Safe mode on real servers: applied changes come again, and the end is the same.

Every shape of table goes through a history of transactions. The checkpoint is then set back to each of them in turn,
while the slave keeps its rows. An apply finds this state if it died between applying and writing its checkpoint.
"""

from collections.abc import Callable

import pytest

from sluice.model.position import Position
from tests.rig.rig import Rig
from tests.scenarios.apply.shapes import AGAIN, EXAMPLE, SHAPES


def play(pair: Rig, statements: tuple[str, ...]) -> list[Position]:
    """Applies the transactions one by one; returns the checkpoint before each, and after the last."""
    places: list[Position] = []

    def here() -> Position:
        position = pair.checkpoint.position
        assert position is not None
        return position

    with pair.apply():
        for transaction in statements:
            pair.await_current()
            places.append(here())
            with pair.master.transaction():
                pair.master.execute(transaction)
        pair.await_current()
    assert pair.differences() == {}
    return [*places, here()]


@pytest.mark.long
@pytest.mark.parametrize("shape", AGAIN)
def test_applied_changes_come_again(rig: Callable[..., Rig], shape: str) -> None:
    pair = rig(SHAPES[shape].tables)
    pair.slave.execute(SHAPES[shape].slave or "SELECT")
    for place in play(pair, SHAPES[shape].history):
        pair.set_back(place)
        with pair.apply():
            pair.await_current()
        assert pair.differences() == {}


@pytest.mark.long
@pytest.mark.parametrize("shape", AGAIN)
def test_each_repetition_reaches_one_transaction_further(rig: Callable[..., Rig], shape: str) -> None:
    """After each transaction the checkpoint falls back by one, two, … and the window reaches one further."""
    pair = rig(SHAPES[shape].tables)
    pair.slave.execute(SHAPES[shape].slave or "SELECT")
    places = []
    for number, transaction in enumerate(SHAPES[shape].history):
        places.append(pair.checkpoint.position)
        with pair.master.transaction():
            pair.master.execute(transaction)
        pair.set_back(places[max(0, number - 1 - number % 3)])
        with pair.apply():
            pair.await_current()
        assert pair.differences() == {}


def test_the_example_of_the_seed_ends_as_described(rig: Callable[..., Rig]) -> None:
    pair = rig(EXAMPLE.tables)
    first = play(pair, EXAMPLE.history)[0]
    wanted = ["(123,888999,abc)", "(999,888888,abc888)"]
    (table,) = pair.tables(pair.slave)
    assert pair.rows(pair.slave, table) == wanted
    pair.set_back(first)
    with pair.apply():
        pair.await_current()
    assert pair.rows(pair.slave, table) == wanted
