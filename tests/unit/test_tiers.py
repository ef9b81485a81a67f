"""Cases of the quick tier change from run to run."""

from itertools import count, islice

from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import has_turn

NUMBERS = st.integers(0, 10_000_000)


@given(st.integers(0, 50), st.integers(1, 12), NUMBERS)
def test_as_many_runs_as_one_in_says_run_every_case_once(place: int, cases: int, first: int) -> None:
    runs = islice(count(first), cases)
    assert sum(has_turn(place, cases, run) for run in runs) == 1


@given(st.integers(1, 12), NUMBERS)
def test_a_run_has_one_of_the_cases_that_follow_each_other(cases: int, run: int) -> None:
    assert sum(has_turn(place, cases, run) for place in range(cases)) == 1
