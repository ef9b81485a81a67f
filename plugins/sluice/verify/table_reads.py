"""Reads, for a comparison, the digests of all blocks, then the rows of blocks that differ.

Rows that are equal on both sides stay in the process that reads them.
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
"""The number of ranges that one statement reads; each makes it longer."""
ROWS_AT_ONCE = 300_000
"""Rows that are compared together if blocks are ranges, which limits the memory to some 100 MB."""
CLASSED_ROWS_AT_ONCE = 2_000_000
"""The same if blocks are classes of hashes, each group of which is found by reading the whole table."""

T = TypeVar("T")
Digests = tuple[TableDigest, TableDigest]
"""The digests of the master, and of the slave."""
Sum = tuple[int, int]
"""The number of rows, and the sum of their digests."""
Sums = dict[int, Sum]
"""By block."""
BlockSums = list[tuple[int, int, str]]
"""The result of `TableDigest.of_blocks`."""
ReadRows = list[DigestedRow]
"""Rows with their digests; of a table without a key `Copies`, which have the same form: a number, then texts."""
Ask = Callable[[Session], ReadRows]
Differing = tuple[Kind, Row, int]
"""How a row differs, its key (without a key, the whole row), and how many copies."""


@dataclass(frozen=True)
class Unequal:
    """The rows of some blocks that differ."""

    rows: list[Differing]
    traveled: int
    """How many rows, or digests of rows, were read."""


class TableReads(Protocol):
    """Reads a table on both sides, as a comparison sees them."""

    def blocks(self, digests: Digests, parts: Sequence[Sequence[Part]]) -> tuple[Sums, Sums]:
        """The digests of all blocks, the master's and the slave's. `parts`: of each side. Raises `CouldNotCompare`."""
        ...

    def unequal(self, digests: Digests, groups: Sequence[Sequence[int]], without: Collection[Row]) -> Iterator[Unequal]:
        """The rows that differ in each group of blocks, except keys in `without`. Raises `CouldNotCompare`."""
        ...


class InThisProcess:
    """Reads by the sessions of the comparison itself."""

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

    def _both(self, master: Ask, slave: Ask) -> tuple[ReadRows, ReadRows]:
        futures = [self._view.run(side, ask) for side, ask in zip(self._sides, (master, slave), strict=True)]
        of_master, of_slave = gathered(futures)
        return of_master, of_slave


def sums(parts: Iterable[Iterable[tuple[int, int, str]]]) -> Sums:
    """The digests of blocks: the sums of their parts' digests, modulo 2^64."""
    total: Sums = {}
    for part in parts:
        for block, count, digest in part:
            rows, value = total.get(block, (0, 0))
            total[block] = (rows + count, (value + int(digest)) % 2**64)
    return total


def unequal(master: Mapping[T, object], slave: Mapping[T, object]) -> list[T]:
    """The keys whose values differ, or that only one of the two has."""
    wrong = [key for key, value in master.items() if slave.get(key) != value]
    return wrong + [key for key in slave if key not in master]


def groups_of(blocks: Iterable[int], rows: Callable[[int], int], *, ranges: bool) -> list[list[int]]:
    """Groups of blocks that are read together, in order. `ranges`: blocks are ranges of keys, not hash classes."""
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
    digests: Digests,
    blocks: Collection[int],
    without: Container[Row],
    both: Callable[[Ask, Ask], tuple[ReadRows, ReadRows]],
) -> Unequal:
    """The rows of these blocks that differ. `both` runs the queries on master and slave at the same time."""
    of_master, of_slave = digests
    if not of_master.shape.key:
        return _unequal_copies(*both(partial(of_master.copies, blocks=blocks), partial(of_slave.copies, blocks=blocks)))
    read = both(partial(of_master.of_rows, blocks=blocks), partial(of_slave.of_rows, blocks=blocks))
    master, slave = map(sums_by_key, read)
    rows = [(_kind(key, master, slave), key, 1) for key in unequal(master, slave) if key not in without]
    return Unequal(rows, sum(map(len, read)))


def sums_by_key(rows: Iterable[DigestedRow]) -> dict[Row, Sum]:
    """Sums the rows `digest, key…` by key: a slave whose key is not unique may have several rows of one."""
    result: dict[Row, Sum] = {}
    for digest, *texts in rows:
        key = tuple(texts)
        count, value = result.get(key, (0, 0))
        result[key] = (count + 1, value + digest)
    return result


def _kind(key: Row, master: Mapping[Row, object], slave: Mapping[Row, object]) -> Kind:
    return Kind.MISSING if key not in slave else Kind.EXTRA if key not in master else Kind.DIFFERENT


def _unequal_copies(master: Iterable[Copies], slave: Iterable[Copies]) -> Unequal:
    """For a table without a key: the rows of which both sides have different numbers of copies."""
    on_master, on_slave = ({tuple(row): count for count, *row in rows} for rows in (master, slave))
    more = [(row, on_master.get(row, 0) - on_slave.get(row, 0)) for row in unequal(on_master, on_slave)]
    rows = [(Kind.MISSING if count > 0 else Kind.EXTRA, row, abs(count)) for row, count in more]
    return Unequal(rows, len(on_master) + len(on_slave))
