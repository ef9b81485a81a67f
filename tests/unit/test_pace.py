"""An apply asks the master soon after a window, and less and less often while nothing is committed."""

import pytest

from sluice.apply.apply_loop import SHORTEST_SECONDS, Pace


def test_at_rest_each_pause_is_the_longest() -> None:
    pace = Pace(0.05)
    assert [pace.pause() for _ in range(3)] == [0.05, 0.05, 0.05]


def test_after_a_window_pauses_grow_from_what_it_took_to_the_longest() -> None:
    pace = Pace(0.05)
    pace.applied(0.012)
    assert [pace.pause() for _ in range(5)] == pytest.approx([0.012, 0.024, 0.048, 0.05, 0.05])
    pace.applied(0.001)
    assert pace.pause() == SHORTEST_SECONDS


@pytest.mark.parametrize("longest", [0.05, 0.001])
def test_no_pause_is_longer_than_the_longest_however_long_a_window_took(longest: float) -> None:
    pace = Pace(longest)
    pace.applied(7.0)
    assert pace.pause() == longest
