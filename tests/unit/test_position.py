"""Positions: what they cover, how floors are inherited, where a window lies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.domain.position import MasterWentBack, Position


@st.composite
def positions(draw: st.DrawFn) -> Position:
    xmin = draw(st.integers(3, 30))
    xip = draw(st.frozensets(st.integers(xmin, xmin + 8), max_size=6))
    xmax = max([xmin, *(xid + 1 for xid in xip)]) + draw(st.integers(0, 3))
    # As PostgreSQL reports it: xmin is the oldest in progress, or xmax when none is.
    return Position(min(xip, default=xmax), xmax, xip)


@given(positions(), positions())
def test_covering_all_means_covering_each(one: Position, other: Position) -> None:
    each = all(one.covers(xid) for xid in range(1, 60) if other.covers(xid))
    assert one.covers_all_of(other) == each


@given(positions())
def test_text_reads_back_with_everything(position: Position) -> None:
    full = Position(position.xmin, position.xmax, position.xip, 7, 9, dict.fromkeys(position.xip, 5), "2026-01-02T03:04:05Z")
    back = Position.parse(full.text())
    assert back == full
    assert (back.low, back.high, back.floors, back.time) == (7, 9, full.floors, full.time)


def test_a_late_commit_is_searched_from_where_its_transaction_can_have_begun() -> None:
    first = Position(10, 12, frozenset({10}), low=100, high=105).after(None)
    second = Position(10, 20, frozenset({10, 15}), low=200, high=210).after(first)
    third = Position(15, 30, frozenset({15}), low=300, high=300).after(second)
    assert second.floors == {10: 0, 15: 100}
    assert first.floor(second) == 100  # 10 is still running, nothing of it can be in this window
    assert second.floor(third) == 0  # 10 has ended; it may have begun before we ever looked
    fourth = Position(31, 31, frozenset(), low=400, high=400).after(third)
    assert third.floor(fourth) == 100  # 15 began after the first look


def test_a_master_that_went_back_is_refused() -> None:
    before = Position(10, 12, low=100, high=105)
    with pytest.raises(MasterWentBack, match="restored from a backup"):
        Position(5, 6, low=3, high=3).after(before)
