"""The ranges of a table that are loaded if a condition selects rows."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sluice.model.blocks import Key
from sluice.model.key_ranges import Match, joined, without_small_gaps


def key(number: int) -> Key:
    return (str(number),)


TEN_RANGES = [(key(10 * place), key(10 * place + 5)) for place in range(10)]


def matches(met: list[bool]) -> list[Match]:
    """For rows with the keys 0, 1, …, whether each meets the condition."""
    found: list[Match] = []
    skipped = 0
    for number, hit in enumerate(met):
        if hit and number and met[number - 1]:
            found[-1] = Match((found[-1].range[0], _end(number, met)), found[-1].skipped)
        elif hit:
            found.append(Match((key(number), _end(number, met)), skipped))
            skipped = 0
        else:
            skipped += 1
    return found


def _end(number: int, met: list[bool]) -> Key | None:
    return key(number + 1) if number + 1 < len(met) else None


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 6))
def test_every_row_that_meets_the_condition_is_in_a_range_and_only_small_gaps_are(met: list[bool], most: int) -> None:
    ranges = list(without_small_gaps(matches(met), most))
    spans = [range(int(lo[0]), int(hi[0]) if hi else len(met)) for lo, hi in ranges if lo is not None]
    assert len(spans) == len(ranges)
    inside = {number for span in spans for number in span}
    assert {number for number, hit in enumerate(met) if hit} <= inside
    for span in spans:
        assert met[span.start] and met[span.stop - 1], "it begins and ends with a row that meets the condition"
        texts = "".join("x" if met[number] else "." for number in span)
        assert all(len(gap) <= most for gap in texts.split("x"))
    for one, other in pairwise(spans):
        assert other.start - one.stop > most, "what lies between is not worth a range"


def test_a_condition_that_every_second_row_meets_is_one_range() -> None:
    assert list(without_small_gaps(matches([True, False] * 5_000), 1)) == [(key(0), key(9_999))]


def test_above_the_most_neighbours_are_joined_with_what_lies_between() -> None:
    assert joined(TEN_RANGES, 10) == TEN_RANGES
    assert joined(TEN_RANGES, 5) == [(key(20 * place), key(20 * place + 15)) for place in range(5)]
    assert len(joined(TEN_RANGES, 3)) <= 3
    assert joined([(None, key(1)), (key(1), key(2)), (key(3), None)], 9) == [(None, key(2)), (key(3), None)]
