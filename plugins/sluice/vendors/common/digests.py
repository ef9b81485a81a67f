"""Blocks of a comparison that are ranges of a whole number, the first column of a key."""

from collections.abc import Collection, Sequence


def in_blocks(column: str, bounds: Sequence[str], blocks: Collection[int]) -> str:
    """The condition that `column` is in one of `blocks`, of which each but the first begins at one of `bounds`."""
    conditions = []
    for number in sorted(blocks):
        ends = [f"{column} >= {bounds[number - 1]}"] if number > 0 else []
        ends += [f"{column} < {bounds[number]}"] if number < len(bounds) else []
        conditions.append(f"({' AND '.join(ends) or '1 = 1'})")
    return " OR ".join(conditions)
