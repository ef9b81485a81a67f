"""Waits for Spark last as long as its share may take, and not much longer."""

import pytest

from sluice.apply.stage_driver import CHANGE_BYTES, FIRST_SECONDS, PACE, SECONDS, SLACK, SparkDeadline, size


def test_a_frozen_worker_is_given_up_within_a_minute_once_windows_came_through() -> None:
    deadline = SparkDeadline()
    million = size(1_000_000, 150_000_000)
    deadline.done(million, 4.0)
    assert deadline.limit(size(20_000, 3_000_000)) == pytest.approx(SECONDS, abs=1.0)
    assert deadline.limit(million) == pytest.approx(SECONDS + SLACK * 4.0)


def test_executors_that_have_yet_to_come_up_are_given_longer() -> None:
    deadline = SparkDeadline()
    assert deadline.limit(0) == FIRST_SECONDS
    deadline.done(size(20_000, 0), 5.0)
    assert deadline.limit(0) == SECONDS


def test_each_failure_doubles_the_limit_until_a_window_comes_through() -> None:
    deadline = SparkDeadline()
    before = deadline.limit(1000)
    deadline.failed()
    deadline.failed()
    assert deadline.limit(1000) == 4 * before
    deadline.done(1000, 400.0)
    assert deadline.limit(1000) == pytest.approx(SECONDS + SLACK * PACE * 1000)


def test_the_pace_is_the_best_one_seen_and_a_small_window_says_nothing_of_a_large_one() -> None:
    deadline = SparkDeadline()
    deadline.done(1_000, 2.0)
    assert deadline.limit(10**9) == pytest.approx(SECONDS + SLACK * PACE * 10**9)
    deadline.done(10**9, 20.0)
    deadline.done(10**9, 40.0)
    assert deadline.limit(10**9) == pytest.approx(SECONDS + SLACK * 20.0)


def test_an_empty_window_measures_nothing() -> None:
    deadline = SparkDeadline()
    deadline.done(0, 1.0)
    assert deadline.limit(CHANGE_BYTES) > SECONDS
