"""The decisions of blocks about changes, without any database."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.model.blocks import (
    Block,
    BlockMap,
    BlockState,
    Decision,
    TableBlocks,
    by_oldest_marker,
    decide,
    decisions,
)
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from tests.errors import raises_code

TABLE = TableName("public", "orders")
MARKER = SnapshotPosition(xmin=10, xmax=20, xip=frozenset({10, 15}))


def block(number: int, lo: str | None, hi: str | None, state: str = "planned", marker: Position | None = None) -> Block:
    return Block(TABLE, number, lo and (lo,), hi and (hi,), BlockState(state), marker)  # type: ignore[arg-type]


@pytest.mark.parametrize("xid", [5, 10, 19, 25])
def test_a_change_to_a_planned_block_is_dropped_and_one_being_read_waits(xid: int) -> None:
    assert decide(block(1, None, None), xid, 0) is Decision.DROP
    assert decide(block(1, None, None, "begun"), xid, 0) is Decision.WAIT


@pytest.mark.parametrize(
    ("xid", "decision"),
    [(5, Decision.DROP), (10, Decision.APPLY), (14, Decision.DROP), (15, Decision.APPLY), (20, Decision.APPLY)],
)
def test_a_stored_block_decides_by_its_marker(xid: int, decision: Decision) -> None:
    assert decide(block(1, None, None, "stored", MARKER), xid, 0) is decision


@pytest.mark.parametrize("state", ["exported", "begun"])
@pytest.mark.parametrize(
    ("xid", "decision"),
    [(5, Decision.DROP), (10, Decision.WAIT), (14, Decision.DROP), (15, Decision.WAIT), (20, Decision.WAIT)],
)
def test_a_block_in_a_file_holds_what_its_marker_covers_and_everything_else_waits_for_its_import(
    state: str, xid: int, decision: Decision
) -> None:
    assert decide(block(1, None, None, state, MARKER), xid, 0) is decision


@pytest.mark.parametrize("state", ["stored", "exported"])
def test_a_block_that_was_read_and_has_no_marker_is_damage(state: str) -> None:
    with raises_code("blocks-damaged", match="without a marker"):
        decide(block(1, None, None, state), 5, 0)


def test_blocks_join_in_key_order_whatever_their_numbers() -> None:
    blocks = [block(7, "c", None), block(3, "a", "b"), block(1, None, "a"), block(9, "b", "c")]
    joined = TableBlocks.joined(TABLE, blocks)
    assert [found.number for found in joined.blocks] == [1, 3, 9, 7]
    assert joined.bounds == [("a",), ("b",), ("c",)]


@pytest.mark.parametrize(
    "blocks",
    [
        [],
        [block(1, None, "a")],
        [block(1, "a", None)],
        [block(1, None, "a"), block(2, "b", None)],
        [block(1, None, "a"), block(2, None, None)],
        [block(1, None, "a"), block(2, "a", None), block(3, "x", "y")],
        [block(1, None, None), block(2, "x", "y")],
    ],
)
def test_gaps_and_overlaps_are_damage(blocks: list[Block]) -> None:
    with raises_code("blocks-damaged", match="orders"):
        TableBlocks.joined(TABLE, blocks)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["planned", "begun", "imported", "exported", "stored"]),
            st.integers(1, 12),
            st.frozensets(st.integers(1, 12), max_size=3),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 14),
)
def test_merged_blocks_decide_every_later_change_as_before(
    states: list[tuple[str, int, frozenset[int]]], applied_end: int
) -> None:
    applied = SnapshotPosition(applied_end, applied_end)
    bounds = [None, *[f"k{number}" for number in range(1, len(states))], None]
    blocks = [
        block(
            number,
            bounds[number],
            bounds[number + 1],
            "begun" if state == "imported" else state,
            SnapshotPosition(min(open_ | {end}), end, frozenset(xid for xid in open_ if xid < end))
            if state in ("imported", "exported", "stored")
            else None,
        )
        for number, (state, end, open_) in enumerate(states)
    ]
    table = TableBlocks.joined(TABLE, blocks)
    merged = table.merged(applied)
    assert TableBlocks.joined(TABLE, merged.blocks) == merged
    ends = [found.hi for found in merged.blocks]
    for xid in range(applied_end, 15):
        place = 0
        for original in table.blocks:
            assert decide(merged.blocks[place], xid, 0) is decide(original, xid, 0)
            place += original.hi == ends[place]
    if table.settled(applied):
        assert decisions(table.blocks, applied_end + 1, 0) == {Decision.APPLY}


def test_a_map_is_complete_when_the_applied_position_has_passed_every_marker() -> None:
    other = TableName("public", "lines")
    blocks = [
        block(1, None, "m", "stored", SnapshotPosition(5, 5)),
        block(2, "m", None, "stored", MARKER),
        Block(other, 1, state=BlockState.STORED, marker=SnapshotPosition(7, 7)),
    ]
    found = BlockMap.of(blocks)
    assert not found.complete(SnapshotPosition(10, 20, frozenset({10, 15, 16})))
    assert found.complete(SnapshotPosition(10, 20, frozenset({10, 15})))
    assert set(found.undecided(SnapshotPosition(6, 6))) == {TABLE, other}
    assert set(found.undecided(SnapshotPosition(7, 7))) == {TABLE}
    assert len(found.undecided(SnapshotPosition(7, 7))[TABLE].blocks) == 2


def behind(number: int, lo: str | None, hi: str | None, marker: int, **more: Any) -> Block:
    """A stored block that has not caught up."""
    lowest, end = (lo,) if lo else None, (hi,) if hi else None
    return Block(TABLE, number, lowest, end, BlockState.STORED, SnapshotPosition(marker, marker), **more)


def test_stored_blocks_catch_up_when_a_window_passes_their_markers() -> None:
    current = replace(behind(1, None, "d", 0), marker=None)
    blocks = (current, behind(2, "d", "k", 5), behind(3, "k", "p", 9), Block(TABLE, 4, ("p",), None))
    table = TableBlocks.joined(TABLE, blocks)
    assert table.catching_up(SnapshotPosition(4, 4)) == []
    assert [block.number for block in table.catching_up(SnapshotPosition(5, 5))] == [2]
    assert [block.number for block in table.catching_up(SnapshotPosition(9, 9))] == [2, 3]
    assert not table.caught_up and current.caught_up and current.settled(SnapshotPosition(1, 1))
    assert [(block.caught_up, block.hi) for block in table.outline.blocks] == [(True, ("d",)), (False, None)]


@pytest.mark.parametrize("way", [{"file": "f"}, {"snapshot": "s"}])
def test_blocks_that_were_read_long_ago_catch_up_together(way: dict[str, Any]) -> None:
    stored = behind(1, None, "d", 5, **way)
    carried = replace(behind(2, "d", None, 6, **way), state=BlockState.EXPORTED)
    assert TableBlocks.joined(TABLE, [stored, carried]).catching_up(SnapshotPosition(9, 9)) == []
    both = [stored, replace(carried, state=BlockState.STORED)]
    assert TableBlocks.joined(TABLE, both).catching_up(SnapshotPosition(9, 9)) == both


def test_changes_after_the_markers_are_read_from_the_oldest_on() -> None:
    blocks = [behind(1, None, "d", 7), behind(2, "d", "k", 3), behind(3, "k", None, 5)]
    ((oldest, found),) = by_oldest_marker(blocks)
    assert oldest == SnapshotPosition(3, 3) and sorted(block.number for block in found) == [1, 2, 3]
    # Of two that saw different transactions neither is the older one.
    apart = [replace(blocks[0], marker=SnapshotPosition(3, 8, frozenset({open_}))) for open_ in (3, 4)]
    assert len(by_oldest_marker(apart)) == 2
