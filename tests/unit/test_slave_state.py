"""The table of transitions of a slave's state."""

import pytest

from sluice.model.slave_state import MOVES, ForbiddenMove, SlaveState, move


def test_the_way_of_an_initial_update() -> None:
    state = SlaveState.UNCONFIGURED
    for wanted in (SlaveState.INITIAL, SlaveState.TRANSITION, SlaveState.NORMAL, SlaveState.INITIAL):
        state = move("dr1", state, wanted)
    assert state is SlaveState.INITIAL


@pytest.mark.parametrize("state", [SlaveState.INITIAL, SlaveState.TRANSITION])
def test_starting_twice_says_to_cancel_first(state: SlaveState) -> None:
    with pytest.raises(ForbiddenMove, match=r"dr1 is .* Cancel the initial update that is running"):
        move("dr1", state, SlaveState.INITIAL)


def test_inconsistent_clears_only_by_a_new_update() -> None:
    assert MOVES[SlaveState.INCONSISTENT] == {SlaveState.INITIAL}


def test_every_state_has_its_row() -> None:
    assert set(MOVES) == set(SlaveState)
