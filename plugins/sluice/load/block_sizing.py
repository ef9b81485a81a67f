"""Decides how many rows the next block of a table gets. Pure functions, no I/O."""

from sluice.model.throttle_state import ThrottleState

FIRST_BYTES = 32 * 1024 * 1024
"""The size limit of a table's first block, whose rows may be wide."""
CAUTIOUS_ROWS = 1_000
"""The first block of a large table without statistics."""
SMALLEST = 100
FEW_BYTES = 64 * 1024
"""A block does not shrink below this, however long it takes."""
LARGEST = 5_000_000
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 0.2, 10.0
"""The first and the longest pause of a block that was put back for the application."""
GROWTH = 4.0
"""The most by which the size changes from one block to the next, as one measurement is unreliable."""


def first_rows(block_rows: int, rows: int | None, size: int) -> int:
    """Rows of a table's first block: `block_rows`, less where rows are wide.

    `rows` and `size` (bytes) as statistics have them; rows None when there are none.
    """
    if size <= FIRST_BYTES:
        return block_rows
    if not rows:
        return min(block_rows, CAUTIOUS_ROWS)
    return max(1, min(block_rows, FIRST_BYTES * rows // size))


def after_tries(rows: int, tries: int) -> int:
    """Rows of a block that was put back for the application `tries` times; `rows`: without that."""
    return max(1, rows >> min(tries, 60))


def rest_seconds(tries: int) -> float:
    """The pause of a block that is put back, after `tries` times before."""
    return float(min(FIRST_REST_SECONDS * 2 ** min(tries, 60), LONGEST_REST_SECONDS))


def next_rows(rows: int, seconds: float, target_seconds: float, block_rows: int, size: int | None = None) -> int:
    """Rows of the block after one with `rows` of `size` bytes that took `seconds`.

    After a block without rows: `block_rows`. A block with few bytes took its time for something else, such as opening a
    file in S3, so it does not shrink.
    """
    if rows <= 0:
        return block_rows
    factor = target_seconds / max(seconds, 0.001)
    if size is not None and size < FEW_BYTES:
        factor = max(factor, 1.0)
    wanted = rows * min(max(factor, 1 / GROWTH), GROWTH)
    return int(min(max(wanted, SMALLEST if seconds < target_seconds else 1), LARGEST))


SHARE_SECONDS = 0.25
"""A block gets what the rate allows its worker in this time, so that a load is never far above its rate."""


def within_rate(rows: int, state: ThrottleState, row_bytes: float | None) -> int:
    """`rows` of the next block, fewer where a rate is set. `row_bytes`: bytes of a row on average, None if unknown."""
    share = SHARE_SECONDS / state.loaders
    if state.rows_per_second is not None:
        rows = int(min(rows, state.rows_per_second * share))
    if state.bytes_per_second is not None and row_bytes:
        rows = int(min(rows, state.bytes_per_second * share / row_bytes))
    return max(rows, 1)
