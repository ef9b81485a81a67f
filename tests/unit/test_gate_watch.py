"""An apply looks at its gate before it applies anything, and seldom while there is nothing."""

from typing import Any

import pytest

from sluice.apply import gate_watch
from sluice.apply.gate_watch import GateWatch
from sluice.coordination.gate import Closure

CLOSED = Closure("admin", "anna", "a migration", "2026-01-01T00:00:00+00:00")


class Gate:
    """A gate that counts who looks at it."""

    def __init__(self) -> None:
        self.found: list[Closure] = []
        self.looks = 0

    def closures(self) -> list[Closure]:
        self.looks += 1
        return self.found


@pytest.fixture
def gate() -> Any:
    return Gate()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time is its last element."""
    times = [100.0]
    monkeypatch.setattr("sluice.apply.gate_watch.time.monotonic", lambda: times[-1])
    return times


def turn(watch: GateWatch, *, applies: bool) -> bool:
    """One turn of an apply. Whether it came to where changes are applied; the same where there are none."""
    if watch.closures() or not watch.is_open(applies=applies):
        return False
    if not applies:
        watch.rest()
    return True


def test_a_turn_that_applies_looks_once(gate: Gate) -> None:
    watch = GateWatch(gate)
    assert all(turn(watch, applies=True) for _ in range(5))
    assert gate.looks == 5


def test_while_nothing_is_applied_it_looks_now_and_then(gate: Gate, clock: list[float]) -> None:
    watch = GateWatch(gate)
    for number in range(100):
        clock.append(100.0 + number * gate_watch.REST_SECONDS / 10)
        assert turn(watch, applies=False)
    assert 10 <= gate.looks <= 11


def test_nothing_is_applied_after_a_rest_before_it_has_looked(gate: Gate) -> None:
    watch = GateWatch(gate)
    assert turn(watch, applies=False)
    gate.found = [CLOSED]
    assert watch.closures() == [], "it was looked at a moment ago"
    assert not watch.is_open(applies=True)
    assert watch.closures() == [CLOSED], "the next turn says so"
    gate.found = []
    assert turn(watch, applies=True)


def test_a_closed_gate_is_looked_at_in_each_turn(gate: Gate, clock: list[float]) -> None:
    watch = GateWatch(gate)
    assert turn(watch, applies=False)
    gate.found = [CLOSED]
    clock.append(clock[-1] + gate_watch.REST_SECONDS)
    for _ in range(3):
        assert watch.closures() == [CLOSED]
    assert gate.looks == 4
