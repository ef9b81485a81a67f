"""Effects right behind their causes: changes in the order in which a slave whose foreign keys act goes through them.

When a key cascades, all rows of the master's statement are captured first, then what its foreign keys changed. A
slave whose own foreign keys act has done both when the first row arrives. So that each change finds its row
under the key that it leaves or the one that it brings, it must come before the next row takes that key:

    master: UPDATE p SET id = id + 1      (rows 2, 1; in c, whose key p is, one row refers to each)
    ITEMS                                 here
    p  2 → 3                              p  2 → 3
    p  1 → 2                              c  2 → 3      the slave's foreign key has done that
    c  2 → 3                              p  1 → 2
    c  1 → 2                              c  1 → 2      and that

Only changes of one transaction change places; of concurrent ones neither saw the other.
"""

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sluice.apply.window_runs import by_table
from sluice.database.row_images import RowImageCodec
from sluice.model.change import Action
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName

Row = Mapping[str, str | None]
Values = tuple[str | None, ...]


@dataclass(frozen=True)
class Touch:
    """A change, as far as foreign keys are concerned. Rows hold the columns that matter; empty for no row."""

    place: int
    table: TableName
    old: Row
    new: Row


def in_cascade_order(
    items: pa.Table,
    keys: Mapping[TableName, Sequence[str]],
    foreign_keys: Iterable[ForeignKey],
    images: RowImageCodec,
) -> pa.Table:
    """`items` (columns of `queue.ITEMS`, with OLDCONTENT, in REPL_KEY order), effects right behind their causes.

    `keys`: the key columns of each table; `foreign_keys` those of the slave. Raises `MalformedContent`.
    """
    acting = [key for key in foreign_keys if key.follows_updates]
    matter: dict[TableName, set[str]] = {}
    for key in acting:
        for table, columns in ((key.child, key.columns), (key.parent, key.parent_columns)):
            matter.setdefault(table, set(keys.get(table, ()))).update(columns)
    places = list(range(items.num_rows))
    for touches in _transactions(items, matter, images).values():
        causes = causes_of(touches, acting)
        if causes:
            own = [touch.place for touch in touches]
            for place, which in zip(own, sequence(touches, causes, keys), strict=True):
                places[place] = own[which]
    return items if places == sorted(places) else items.take(pa.array(places))


def _transactions(
    items: pa.Table, matter: Mapping[TableName, set[str]], images: RowImageCodec
) -> dict[int, list[Touch]]:
    """The changes of the tables in `matter` by transaction, in their order."""
    found: dict[int, list[Touch]] = {}
    numbered = items.append_column("place", pa.array(range(items.num_rows), pa.int64())) if matter else None
    for table, mine in by_table(numbered).items() if matter else ():
        wanted = matter.get(table, set())
        for item in mine.to_pylist() if wanted else ():
            gone = images.row(item["oldcontent"]) if item["oldcontent"] else {}
            new = images.row(item["content"]) if item["content"] and item["action"] != Action.DELETE else {}
            old = {**new, **gone} if gone else {}
            rows = ({name: value for name, value in row.items() if name in wanted} for row in (old, new))
            found.setdefault(item["trans_key"], []).append(Touch(item["place"], table, *rows))
    return {transaction: sorted(touches, key=lambda touch: touch.place) for transaction, touches in found.items()}


def causes_of(touches: Sequence[Touch], acting: Iterable[ForeignKey]) -> list[tuple[int, int]]:
    """Pairs (cause, effect) of places in `touches`, one transaction's changes.

    The effect leads a row from A to B; its cause, before it, is the last change that gave the row referred to, which
    had A, the value B. Not where a row came to A in between: then A is another's meanwhile, and the row may have been
    led to B by hand.
    """
    found = []
    for key in acting:
        given: dict[Values, tuple[Values, int]] = {}
        arrived: dict[Values, int] = {}
        for at, touch in enumerate(touches):
            if touch.table == key.child and touch.new:
                begins, ends = _of(touch.old, key.columns), _of(touch.new, key.columns)
                source, cause = given.get(ends, (None, -1))
                if touch.old and begins != ends and source == begins and arrived.get(begins, -1) < cause:
                    found.append((cause, at))
                if not touch.old or begins != ends:
                    arrived[ends] = at
            if touch.table == key.parent and touch.new:
                given[_of(touch.new, key.parent_columns)] = (_of(touch.old, key.parent_columns), at)
    return found


def sequence(
    touches: Sequence[Touch], causes: Sequence[tuple[int, int]], keys: Mapping[TableName, Sequence[str]]
) -> list[int]:
    """The places in their new order.

    A table's changes (of one that refers to itself: a row's) stay in their order, and what comes before an effect
    there comes before its cause. Where these wishes contradict each other, the order stays as it is.
    """
    after: list[set[int]] = [set() for _ in touches]
    because: dict[int, list[int]] = {}
    trees = {touches[cause].table for cause, effect in causes if touches[cause].table == touches[effect].table}
    for cause, effect in causes:
        after[cause].add(effect)
        because.setdefault(effect, []).append(cause)
    last: dict[Hashable, int] = {}
    for at, touch in enumerate(touches):
        for name in _names(touch, keys.get(touch.table, ())) if touch.table in trees else [touch.table]:
            if last.get(name, at) != at:
                before = last[name]
                after[before].update([at, *(_first(at, because) - _first(before, because) - {before})])
            last[name] = at
    return _sorted(after) or list(range(len(touches)))


def _first(effect: int, because: Mapping[int, list[int]]) -> set[int]:
    """The changes that all began with: the causes of the causes."""
    found: set[int] = set()
    border = list(because.get(effect, ()))
    while border:
        cause = border.pop()
        border += because.get(cause, [])
        found.add(cause)
    return found


def _sorted(after: Sequence[set[int]]) -> list[int] | None:
    """Each as early as it came, after those it must follow; None for a cycle."""
    waits = [0] * len(after)
    for others in after:
        for other in others:
            waits[other] += 1
    ready = [at for at, number in enumerate(waits) if not number]
    heapq.heapify(ready)
    order = []
    while ready:
        at = heapq.heappop(ready)
        order.append(at)
        for other in after[at]:
            waits[other] -= 1
            if not waits[other]:
                heapq.heappush(ready, other)
    return order if len(order) == len(after) else None


def _of(row: Row, columns: Sequence[str]) -> Values:
    return tuple(row.get(column) for column in columns)


def _names(touch: Touch, key: Sequence[str]) -> list[Hashable]:
    """What tells the rows before and after."""
    return [(touch.table, _of(row, key)) for row in (touch.old, touch.new) if row]
