"""Parts of a table as ranges of its key: the chosen ones, and those between."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sluice.model.blocks import Key
from sluice.model.names import TableName

Range = tuple[Key | None, Key | None]
"""From (inclusive) and to (exclusive); None: without a bound."""
WHOLE: Range = (None, None)


@dataclass(frozen=True)
class Part:
    """The part of a table that is loaded: `ranges` in key order, without overlap."""

    table: TableName
    ranges: tuple[Range, ...] = (WHOLE,)

    @property
    def whole(self) -> bool:
        return self.ranges == (WHOLE,)

    def blocks(self) -> list[tuple[Key | None, Key | None, bool]]:
        """The whole table as ranges of blocks, and whether each of them is chosen."""
        blocks: list[tuple[Key | None, Key | None, bool]] = []
        at: Key | None = None
        for number, (lo, hi) in enumerate(self.ranges):
            if lo != at or (number and lo is None):
                blocks.append((at, lo, False))
            blocks.append((lo, hi, True))
            at = hi
        if not self.ranges or at is not None:
            blocks.append((at, None, False))
        return blocks


@dataclass(frozen=True)
class Match:
    """Neighbouring rows, in key order, that match a condition."""

    range: Range
    skipped: int = 0
    """The number of rows without a match between the match before, or the first row, and this match."""


def without_small_gaps(matches: Iterable[Match], most: int) -> Iterator[Range]:
    """The ranges of matches in key order; ranges with at most so many rows between them are joined.

    A range costs more than the rows of a small gap: a block, with a transaction on both sides.
    """
    lo: Key | None = None
    hi: Key | None = None
    begun = False
    for match in matches:
        if begun and match.skipped <= most:
            hi = match.range[1]
            continue
        if begun:
            yield lo, hi
        (lo, hi), begun = match.range, True
    if begun:
        yield lo, hi


def joined(ranges: Iterable[Range], most: int) -> list[Range]:
    """Ranges in key order, with adjacent ones joined. If there are more than `most`, neighbours are joined with the
    rows between them."""
    result: list[Range] = []
    for lo, hi in ranges:
        if result and result[-1][1] == lo and lo is not None:
            result[-1] = (result[-1][0], hi)
        else:
            result.append((lo, hi))
        if len(result) >= 2 * most:
            result = _halved(result)
    while len(result) > most:
        result = _halved(result)
    return result


def _halved(ranges: Sequence[Range]) -> list[Range]:
    return [(ranges[place][0], ranges[min(place + 1, len(ranges) - 1)][1]) for place in range(0, len(ranges), 2)]
