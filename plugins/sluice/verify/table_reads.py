"""What a comparison reads of many rows: digests of all blocks, then the rows of blocks that differ.

Rows that both sides have alike go no further than the process that read them.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from sluice.database.digests import MOST_BLOCKS, Copies, DigestedRow, Part, TableDigest
from sluice.database.session import Session
from sluice.verify.findings import Kind, Row
from sluice.verify.pinned_sessions import PinnedView, gathered
from sluice.verify.pinned_side import Side

BLOCKS_AT_ONCE = 256
"""Ranges that are read together: each makes their statement longer."""
ROWS_AT_ONCE = 300_000
"""Rows that are compared together where blocks are ranges: what bounds the memory, some 100 MB."""
CLASSED_ROWS_AT_ONCE = 2_000_000
"""The same where blocks are classes of hashes: each such group is found by reading the whole table."""

T = TypeVar("T")
Digests = tuple[TableDigest, TableDigest]
"""The master's, the slave's."""
Sum = tuple[int, int]
"""How many rows, and the sum of their digests."""
Sums = dict[int, Sum]
"""By block."""
BlockSums = list[tuple[int, int, str]]
"""What `TableDigest.of_blocks` gives."""
Found = list[DigestedRow]
"""Or `Copies` of a table without a key, which are alike: a number, then texts."""
Ask = Callable[[Session], Found]


@dataclass(frozen=True)
class Unequal:
    """Of some blocks the rows that are not the same on both sides."""

    rows: list[tuple[Kind, Row, int]]
    """How each differs, its key, and how many of it; of a table without a key the whole row."""
    travelled: int
    """Rows, or digests of rows, that were read for it."""


class TableReads(Protocol):
    """Reads a table on both sides, as a comparison sees them."""

    def blocks(self, digests: Digests, parts: Sequence[Sequence[Part]]) -> tuple[Sums, Sums]:
        """The digests of all blocks, the master's and the slave's. `parts`: of each side. Raises `CouldNotCompare`."""
        ...

    def unequal(self, digests: Digests, groups: Sequence[Sequence[int]], without: Collection[Row]) -> Iterator[Unequal]:
        """What differs in each group of blocks, but for keys in `without`. Raises `CouldNotCompare`."""
        ...


class InThisProcess:
    """By the sessions of the comparison itself."""

    def __init__(self, view: PinnedView, sides: tuple[Side, Side]):
        self._view = view
        self._sides = sides

    def blocks(self, digests: Digests, parts: Sequence[Sequence[Part]]) -> tuple[Sums, Sums]:
        """See `TableReads`."""
        futures = [
            [self._view.run(side, partial(digest.of_blocks, part=part)) for part in of_side]
            for side, digest, of_side in zip(self._sides, digests, parts, strict=True)
        ]
        gathered([future for of_side in futures for future in of_side])
        master, slave = (sums(future.result() for future in of_side) for of_side in futures)
        return master, slave

    def unequal(self, digests: Digests, groups: Sequence[Sequence[int]], without: Collection[Row]) -> Iterator[Unequal]:
        """See `TableReads`."""
        for blocks in groups:
            yield unequal_rows(digests, blocks, without, self._both)

    def _both(self, master: Ask, slave: Ask) -> tuple[Found, Found]:
        asked = [self._view.run(side, ask) for side, ask in zip(self._sides, (master, slave), strict=True)]
        theirs, ours = gathered(asked)
        return theirs, ours


def sums(parts: Iterable[Iterable[tuple[int, int, str]]]) -> Sums:
    """Digests of blocks from those of their parts: they add up, modulo 2^64."""
    total: Sums = {}
    for part in parts:
        for block, count, digest in part:
            rows, value = total.get(block, (0, 0))
            total[block] = (rows + count, (value + int(digest)) % 2**64)
    return total


def unequal(master: Mapping[T, object], slave: Mapping[T, object]) -> list[T]:
    """The keys under which the two hold another value, or only one of them any."""
    wrong = [key for key, value in master.items() if slave.get(key) != value]
    return wrong + [key for key in slave if key not in master]


def groups_of(blocks: Iterable[int], rows: Callable[[int], int], *, ranges: bool) -> list[list[int]]:
    """Blocks that are read together, in their order. `ranges`: of keys, and no classes of hashes."""
    most, most_blocks = (ROWS_AT_ONCE, BLOCKS_AT_ONCE) if ranges else (CLASSED_ROWS_AT_ONCE, MOST_BLOCKS)
    groups: list[list[int]] = []
    size = 0
    for block in blocks:
        if not groups or size + rows(block) > most or len(groups[-1]) == most_blocks:
            groups.append([])
            size = 0
        groups[-1].append(block)
        size += rows(block)
    return groups


def unequal_rows(
    digests: Digests, blocks: Collection[int], without: Container[Row], both: Callable[[Ask, Ask], tuple[Found, Found]]
) -> Unequal:
    """What differs in these blocks. `both` asks master and slave at the same time."""
    ours, theirs = digests
    if not ours.shape.key:
        found = both(partial(ours.copies, blocks=blocks), partial(theirs.copies, blocks=blocks))
        return _unequal_copies(*found)
    found = both(partial(ours.of_rows, blocks=blocks), partial(theirs.of_rows, blocks=blocks))
    master, slave = map(sums_by_key, found)
    rows = [(_kind(key, master, slave), key, 1) for key in unequal(master, slave) if key not in without]
    return Unequal(rows, sum(map(len, found)))


def sums_by_key(rows: Iterable[DigestedRow]) -> dict[Row, Sum]:
    """Rows `digest, key…` by key; a slave whose key is not unique may have several under one."""
    found: dict[Row, Sum] = {}
    for digest, *texts in rows:
        key = tuple(texts)
        count, value = found.get(key, (0, 0))
        found[key] = (count + 1, value + digest)
    return found


def _kind(key: Row, master: Mapping[Row, object], slave: Mapping[Row, object]) -> Kind:
    return Kind.MISSING if key not in slave else Kind.EXTRA if key not in master else Kind.DIFFERENT


def _unequal_copies(master: Iterable[Copies], slave: Iterable[Copies]) -> Unequal:
    """Of a table without a key: rows that are not there as often."""
    ours, theirs = ({tuple(row): count for count, *row in rows} for rows in (master, slave))
    more = [(row, ours.get(row, 0) - theirs.get(row, 0)) for row in unequal(ours, theirs)]
    rows = [(Kind.MISSING if count > 0 else Kind.EXTRA, row, abs(count)) for row, count in more]
    return Unequal(rows, len(ours) + len(theirs))
