"""Parts of a table as ranges of its key: the chosen ones, and those between."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sluice.model.blocks import Key
from sluice.model.logical_type import Kind
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
    """Neighboring rows, in key order, that match a condition."""

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
    """Ranges in key order, with adjacent ones joined. If there are more than `most`, neighbors are joined with the
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
    return [(ranges[index][0], ranges[min(index + 1, len(ranges) - 1)][1]) for index in range(0, len(ranges), 2)]


_NANOSECONDS = 9


def located(kinds: Sequence[Kind], bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
    """For each key, how many of the sorted `bounds` are at or below it, on a server that compares texts by their bytes.

    `kinds`: of the key's columns.
    """
    ends = [_ordered(kinds, bound) for bound in bounds]
    return [bisect_right(ends, _ordered(kinds, key)) for key in keys]


def _ordered(kinds: Sequence[Kind], key: Key) -> tuple[Decimal | float | str | bytes, ...]:
    return tuple(_value(kind, text) for kind, text in zip(kinds, key, strict=True))


def _value(kind: Kind, text: str) -> Decimal | float | str | bytes:
    """A value for a key's text, from the stream or from a row, which Python sorts as the master does."""
    match kind:
        case Kind.NUMBER | Kind.INTEGER:
            return Decimal(text)
        case Kind.FLOAT:
            return float(text)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_ZONE:
            seconds, _, fraction = text.removesuffix("+00").partition(".")
            return f"{seconds}.{fraction.ljust(_NANOSECONDS, '0')}"
        case Kind.CHAR:
            return text.rstrip(" ").encode()
        case _:
            return text.encode()
