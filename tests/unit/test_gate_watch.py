"""An apply reads its gate and requests in each full turn, and skips turns while the master is at rest."""

import pytest

from sluice.apply import apply_loop
from sluice.apply.apply_loop import GateWatch
from sluice.coordination.gate import Closure
from sluice.coordination.requests import Signals, SignalsRead

CLOSED = Closure("admin", "anna", "a migration", "2026-01-01T00:00:00+00:00")


class Redis(Signals):
    """Signals without a Redis, which count their reads."""

    def __init__(self) -> None:
        self.found = SignalsRead([], requested=False)
        self.reads = 0

    def read(self) -> SignalsRead:
        self.reads += 1
        return self.found


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The last element of the list is the time."""
    times = [100.0]
    monkeypatch.setattr("sluice.apply.apply_loop.time.monotonic", lambda: times[-1])
    return times


def test_a_whole_turn_reads_once_and_none_is_left_out_before_a_rest() -> None:
    redis = Redis()
    watch = GateWatch(redis)
    for _ in range(5):
        assert not watch.resting
        assert watch.closures() == []
    assert redis.reads == 5


def test_after_a_turn_without_work_turns_are_left_out_for_a_while(clock: list[float]) -> None:
    watch = GateWatch(Redis())
    watch.closures()
    watch.rest()
    assert watch.resting
    clock.append(100.0 + 0.9 * apply_loop.REST_SECONDS)
    assert watch.resting
    clock.append(100.0 + apply_loop.REST_SECONDS)
    assert not watch.resting


def test_a_whole_turn_ends_the_rest_and_tells_what_redis_has() -> None:
    redis = Redis()
    watch = GateWatch(redis)
    watch.closures()
    watch.rest()
    redis.found = SignalsRead([CLOSED], requested=True)
    assert not watch.requested
    assert watch.closures() == [CLOSED]
    assert watch.requested
    assert not watch.resting
