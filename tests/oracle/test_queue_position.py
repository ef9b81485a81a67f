"""Positions in ITEMS of Oracle: what they cover, how they are stored, what is refused."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.model.position import Position
from sluice.vendors.oracle.queue_position import Incarnation, QueuePosition, number_of, trans_key_of
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from tests.errors import raises_code

HERE = Incarnation(4021, "0F3B", 1150723105, 2)


def position(low: int, high: int, open_: set[int] | None = None, seen: set[int] | None = None) -> QueuePosition:
    return QueuePosition(low, high, frozenset(open_ or ()), frozenset(seen or ()), HERE)


@given(st.integers(0, 32767), st.integers(0, 65535), st.integers(0, 2**32 - 1))
def test_the_id_of_a_transaction_is_a_number_of_63_bits_and_back(segment: int, slot: int, sequence: int) -> None:
    text = f"{segment}.{slot}.{sequence}"
    assert 0 <= number_of(text) < 2**63
    assert trans_key_of(number_of(text)) == text


@pytest.mark.parametrize("text", ["", "1.2", "1.2.3.4", "a.b.c", "32768.0.1", "1.65536.1", "1.1.4294967296", "1.-1.1"])
def test_other_texts_are_no_ids(text: str) -> None:
    with pytest.raises(ValueError):
        number_of(text)


def test_keys_below_low_are_covered_but_for_open_transactions_and_above_it_only_seen_ones_are() -> None:
    one = position(10, 20, open_={7}, seen={8})
    assert [one.covers(7, 10), one.covers(5, 10)] == [False, True]
    assert [one.covers(8, 11), one.covers(8, 20), one.covers(5, 11), one.covers(8, 21)] == [True, True, False, False]


def test_a_late_commit_is_searched_from_where_its_transaction_can_have_begun() -> None:
    first = position(100, 105, open_={1}).after(None)
    second = position(200, 210, open_={1, 2}).after(first)
    third = position(300, 310, open_={2}).after(second)
    assert first.floor(second) == 100  # 1 still runs: nothing of it is in this window
    assert second.floor(third) == 0  # 1 has ended; it may have begun before anybody looked
    assert third.floor(position(400, 410).after(third)) == 100  # 2 began after the first look


def test_a_text_reads_back_with_everything() -> None:
    running, ended = number_of("12.31.70000"), number_of("3.0.1")
    full = replace(position(5, 9, {running}, {ended}), scn=2**62, floors={running: 4}, time="2026-01-02T03:04:05Z")
    assert asdict(QueuePosition.parse(full.text())) == asdict(full)


@pytest.mark.parametrize("text", ["", "7", "[]", '{"vendor":"oracle"}', '{"low":1,"open":[]}'])
def test_other_texts_are_no_positions(text: str) -> None:
    with pytest.raises(ValueError):
        QueuePosition.parse(text)


def test_a_master_with_another_history_is_refused() -> None:
    before: Position = position(1, 2)
    flashed_back = replace(position(30, 40), incarnation=replace(HERE, pdb_incarnation=3))
    with raises_code("master-replaced", match="flashed back"):
        flashed_back.after(before)
    with raises_code("master-replaced"):
        flashed_back.covers_all_of(before)


def test_a_sequence_that_gives_out_keys_again_is_refused() -> None:
    with raises_code("sequence-went-back", match="gave out 2, but REPL_KEY 40 was already seen"):
        position(2, 3).after(position(30, 40))


def test_a_position_of_another_vendor_is_refused() -> None:
    with raises_code("other-source", match="an Oracle master"):
        position(1, 2).after(SnapshotPosition(3, 3))
