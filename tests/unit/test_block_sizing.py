"""The size of the next block, from what the last one took."""

from hypothesis import given
from hypothesis import strategies as st

from sluice.load.loader import FEW_BYTES, GROWTH, LARGEST, next_rows


@given(st.integers(1, LARGEST), st.floats(0, 1e4), st.floats(0.01, 100), st.integers(0, 1 << 40))
def test_one_block_changes_the_size_by_a_factor_at_most(rows: int, seconds: float, target: float, size: int) -> None:
    following = next_rows(rows, seconds, target, 50_000, size)
    assert 1 <= following <= max(LARGEST, 1)
    assert following <= max(rows * GROWTH, 100) and following >= min(int(rows / GROWTH), LARGEST)


def test_a_block_that_took_too_long_is_followed_by_a_smaller_one_but_not_for_ever() -> None:
    """To open a file in S3 takes a second: blocks of one row would take it for each row."""
    rows, size = 50_000, 50_000 * 40
    while (following := next_rows(rows, 1.0, 0.05, 50_000, rows * 40)) != rows:
        assert following < rows
        rows = following
    assert 400 <= rows <= size // 40 and rows * 40 < FEW_BYTES
    assert next_rows(1, 30.0, 0.5, 50_000, 100 << 20) == 1, "a row of 100 MB is a block"
