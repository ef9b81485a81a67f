"""When a load pauses, by its measurements; and how large blocks are under a rate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.configuration.options import ThrottleOptions
from sluice.load.loader import within_rate
from sluice.load.throttle_rules import Readings, StandbyLag, exceeded, load_message, throttle_state
from sluice.model.throttle_state import ThrottleState

ALL = ThrottleOptions(active_sessions=10, lock_waits=0, replica_lag=5, query="SELECT 1", query_limit=2.5, apply_lag=60)


def test_nothing_is_beyond_a_limit_that_is_not_set() -> None:
    assert exceeded(ThrottleOptions(), Readings(1e9, 1e9, 1e9, 1e9, 1e9), "F") == []


def test_at_its_limit_a_load_goes_on_and_above_it_pauses() -> None:
    assert exceeded(ALL, Readings(10, 0, 5, 2.5, 60), "F") == []
    assert exceeded(ALL, Readings(11, 1, 5.25, 2.6, 1e5), "F") == [
        "active sessions on the master: 11, the limit is 10",
        "sessions that wait for locks on the master: 1, the limit is 0",
        "the lag of the master's standbys: 5.25 s, the limit is 5 s",
        "the query of initial.throttle: 2.6, the limit is 2.5",
        "the lag of the apply: 100,000 s, the limit is 60 s",
    ]


def test_an_unmeasurable_limit_pauses_with_the_remedy() -> None:
    assert exceeded(ALL, Readings(query="it returns NULL instead of a number"), "DEMO.yaml") == [
        "the query of initial.throttle: it returns NULL instead of a number; fix that, or remove the limit from "
        "DEMO.yaml"
    ]


def test_limits_that_are_not_set_are_not_checked() -> None:
    assert exceeded(ALL, Readings(), "F") == []


def test_a_person_may_pause_a_load() -> None:
    held = throttle_state(
        ThrottleOptions(pause=True), exceeded(ThrottleOptions(pause=True), Readings(), "DEMO.yaml"), 4
    )
    assert held.holds
    assert load_message("u1", held) == "Initial update u1 waits: initial.throttle.pause is set in DEMO.yaml"


def test_the_message_tells_the_rate() -> None:
    held = throttle_state(ThrottleOptions(rows_per_second=10_000, megabytes_per_second=2.5), [], 4)
    assert not held.holds
    assert held.bytes_per_second == 2_500_000
    assert load_message("u1", held) == "Initial update u1 is loading, at most 10,000 rows/s, 2.5 MB/s"
    assert load_message("u1", ThrottleState()) == "Initial update u1 is loading"


def test_a_load_ahead_of_its_rate_holds() -> None:
    assert ThrottleState(rows_per_second=1, ahead_seconds=0.1).holds
    assert not ThrottleState(rows_per_second=1, ahead_seconds=-0.1).holds


@given(
    st.integers(1, 10**7),
    st.none() | st.floats(1, 1e9),
    st.none() | st.floats(1, 1e9),
    st.integers(1, 256),
    st.none() | st.floats(0, 1e6),
)
def test_a_block_is_never_empty_nor_more_than_a_second_of_all_workers(
    rows: int, of_rows: float | None, of_bytes: float | None, loaders: int, row_bytes: float | None
) -> None:
    limited = within_rate(rows, ThrottleState(False, "", of_rows, of_bytes, loaders), row_bytes)
    assert 1 <= limited <= rows
    if of_rows is not None and limited > 1:
        assert limited * loaders <= of_rows
    if of_bytes is not None and row_bytes and limited > 1:
        assert limited * loaders * row_bytes <= of_bytes * 1.001
    if of_rows is None and of_bytes is None:
        assert limited == rows


def test_a_standby_that_stands_still_falls_behind_second_by_second() -> None:
    lag = StandbyLag()
    assert lag.measure(0, 1000, [1000]) == 0
    assert lag.measure(1, 2000, [1000, 2000]) == 0, "seen this very moment"
    assert [lag.measure(second, 2000 + second, [1000]) for second in (2, 3, 10)] == [1, 2, 9]
    assert lag.measure(11, 3000, [2003]) == pytest.approx(1), "past what was written until 3"
    assert lag.measure(12, 3000, [3000]) == 0


def test_a_quiet_master_has_no_lag() -> None:
    lag = StandbyLag()
    assert [lag.measure(second, 1000, [1000]) for second in range(5)] == [0] * 5
    assert lag.measure(6, 1000, []) == 0


def test_a_long_load_forgets_what_is_long_ago() -> None:
    lag = StandbyLag()
    for second in range(10_000):
        lag.measure(second, second, [0])
    assert lag.measure(10_000, 10_000, [0]) <= 3600
