"""Positions: what they cover, how floors are inherited, where a window is."""

from dataclasses import asdict, replace

from hypothesis import given
from hypothesis import strategies as st

from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from tests.errors import raises_code


@st.composite
def positions(draw: st.DrawFn) -> SnapshotPosition:
    xmin = draw(st.integers(3, 30))
    xip = draw(st.frozensets(st.integers(xmin, xmin + 8), max_size=6))
    xmax = max([xmin, *(xid + 1 for xid in xip)]) + draw(st.integers(0, 3))
    # As PostgreSQL reports it: xmin is the oldest in progress, or xmax when none is.
    return SnapshotPosition(min(xip, default=xmax), xmax, xip)


@given(positions(), positions())
def test_covering_all_means_covering_each(one: SnapshotPosition, other: SnapshotPosition) -> None:
    each = all(one.covers(xid) for xid in range(1, 60) if other.covers(xid))
    assert one.covers_all_of(other) == each


@given(positions())
def test_text_reads_back_with_everything(position: SnapshotPosition) -> None:
    floors = dict.fromkeys(position.xip, 5)
    full = replace(position, low=7, high=9, next=80, floors=floors, gap_floor=4, time="2026-01-02T03:04:05Z")
    back = SnapshotPosition.parse(full.text())
    assert asdict(back) == asdict(full)


def test_a_late_commit_is_searched_from_where_its_transaction_can_have_begun() -> None:
    first = SnapshotPosition(10, 12, frozenset({10}), low=100, high=105, next=12).after(None)
    second = SnapshotPosition(10, 20, frozenset({10, 15}), low=200, high=210, next=20).after(first)
    third = SnapshotPosition(15, 30, frozenset({15}), low=300, high=300, next=30).after(second)
    assert second.floors == {10: 0, 15: 100}
    assert first.floor(second) == 100  # 10 is still running, nothing of it can be in this window
    assert second.floor(third) == 0  # 10 has ended; it may have begun before we ever looked
    fourth = SnapshotPosition(31, 31, frozenset(), low=400, high=400, next=31).after(third)
    assert third.floor(fourth) == 100  # 15 began after the first look


def test_a_transaction_beyond_the_snapshots_end_may_have_begun_long_ago() -> None:
    # 13 had drawn keys when the first position was taken, but nothing after 11 had completed.
    first = replace(SnapshotPosition(12, 12, low=100, high=105, next=14).after(None), gap_floor=40)
    second = SnapshotPosition(13, 20, frozenset({13}), low=200, high=210, next=20).after(first)
    assert second.floors == {13: 40}
    ended = SnapshotPosition(20, 20, low=300, high=300, next=20).after(second)
    assert second.floor(ended) == 40
    assert first.floor(ended) == 40
    unknown = replace(first, next=None)
    assert unknown.floor(ended) == 40  # nothing is surely later where the next ID is unknown


def test_a_master_that_went_back_is_refused() -> None:
    before = SnapshotPosition(10, 12, low=100, high=105)
    with raises_code("master-went-back", match="restored from a backup"):
        SnapshotPosition(5, 6, low=3, high=3).after(before)
