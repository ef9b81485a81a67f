"""Orders changes for a slave whose foreign keys act: each effect of a cascade right behind its cause.

When a key cascades, ITEMS first has all rows of the master's statement, then the rows that its foreign keys changed.
On a slave whose own foreign keys act, the first row already cascades. The replayed change of the referring row must
come before another row takes the same key, or it would not find its row:

    master: UPDATE p SET id = id + 1      (rows 2, 1; in c, whose key p is, one row refers to each)
    ITEMS                                 this order
    p  2 → 3                              p  2 → 3
    p  1 → 2                              c  2 → 3      the slave's foreign key has done that
    c  2 → 3                              p  1 → 2
    c  1 → 2                              c  1 → 2      and that

Only changes of one transaction are reordered: concurrent transactions do not see each other's rows.
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
    """A change, reduced to the columns of keys and foreign keys. A row that does not exist is empty."""

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
    """`items` (columns of `queue.ITEMS`, with OLDCONTENT, in REPL_KEY order) with each effect behind its cause.

    `keys`: the key columns of each table; `foreign_keys`: those of the slave. Raises `malformed-content`.
    """
    acting = [key for key in foreign_keys if key.follows_updates]
    key_columns: dict[TableName, set[str]] = {}
    for key in acting:
        for table, columns in ((key.child, key.columns), (key.parent, key.parent_columns)):
            key_columns.setdefault(table, set(keys.get(table, ()))).update(columns)
    order = list(range(items.num_rows))
    for touches in _transactions(items, key_columns, images).values():
        causes = causes_of(touches, acting)
        if causes:
            places = [touch.place for touch in touches]
            for place, which in zip(places, sequence(touches, causes, keys), strict=True):
                order[place] = places[which]
    return items if order == sorted(order) else items.take(pa.array(order))


def _transactions(
    items: pa.Table, key_columns: Mapping[TableName, set[str]], images: RowImageCodec
) -> dict[int, list[Touch]]:
    """The changes of the tables in `key_columns`, by transaction and in order."""
    touches_of: dict[int, list[Touch]] = {}
    numbered = items.append_column("place", pa.array(range(items.num_rows), pa.int64())) if key_columns else None
    for table, table_items in by_table(numbered).items() if key_columns else ():
        columns = key_columns.get(table, set())
        for item in table_items.to_pylist() if columns else ():
            former = images.row(item["oldcontent"]) if item["oldcontent"] else {}
            new = images.row(item["content"]) if item["content"] and item["action"] != Action.DELETE else {}
            old = {**new, **former} if former else {}
            rows = ({name: value for name, value in row.items() if name in columns} for row in (old, new))
            touches_of.setdefault(item["trans_key"], []).append(Touch(item["place"], table, *rows))
    return {transaction: sorted(touches, key=lambda touch: touch.place) for transaction, touches in touches_of.items()}


def causes_of(touches: Sequence[Touch], acting: Iterable[ForeignKey]) -> list[tuple[int, int]]:
    """Pairs (cause, effect) of indices of `touches`, the changes of one transaction.

    The effect changes a reference from A to B. Its cause is the last change before it that gave the parent row with
    key A the key B. There is no cause where another row got the reference A in between: A then names another parent,
    and the statement may have set B itself.
    """
    pairs = []
    for key in acting:
        parents: dict[Values, tuple[Values, int]] = {}
        referred_since: dict[Values, int] = {}
        for at, touch in enumerate(touches):
            if touch.table == key.child and touch.new:
                old, new = _of(touch.old, key.columns), _of(touch.new, key.columns)
                former_parent, cause = parents.get(new, (None, -1))
                if touch.old and old != new and former_parent == old and referred_since.get(old, -1) < cause:
                    pairs.append((cause, at))
                if not touch.old or old != new:
                    referred_since[new] = at
            if touch.table == key.parent and touch.new:
                parents[_of(touch.new, key.parent_columns)] = (_of(touch.old, key.parent_columns), at)
    return pairs


def sequence(
    touches: Sequence[Touch], causes: Sequence[tuple[int, int]], keys: Mapping[TableName, Sequence[str]]
) -> list[int]:
    """The indices of `touches` in their new order.

    Changes of a table keep their order, and so do changes of a row where the table refers to itself. What precedes an
    effect in its table precedes the cause as well. Where these rules contradict each other, nothing is reordered.
    """
    after: list[set[int]] = [set() for _ in touches]
    causes_by_effect: dict[int, list[int]] = {}
    self_referring = {touches[cause].table for cause, effect in causes if touches[cause].table == touches[effect].table}
    for cause, effect in causes:
        after[cause].add(effect)
        causes_by_effect.setdefault(effect, []).append(cause)
    last: dict[Hashable, int] = {}
    for at, touch in enumerate(touches):
        for name in _rows(touch, keys.get(touch.table, ())) if touch.table in self_referring else [touch.table]:
            if last.get(name, at) != at:
                before = last[name]
                new_causes = _all_causes(at, causes_by_effect) - _all_causes(before, causes_by_effect) - {before}
                after[before].update([at, *new_causes])
            last[name] = at
    return _sorted(after) or list(range(len(touches)))


def _all_causes(effect: int, causes_by_effect: Mapping[int, list[int]]) -> set[int]:
    """The causes of a change, and their causes."""
    result: set[int] = set()
    border = list(causes_by_effect.get(effect, ()))
    while border:
        cause = border.pop()
        border += causes_by_effect.get(cause, [])
        result.add(cause)
    return result


def _sorted(after: Sequence[set[int]]) -> list[int] | None:
    """A topological order that keeps the given order where it can; None for a cycle. `after`: who must follow each."""
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


def _rows(touch: Touch, key: Sequence[str]) -> list[Hashable]:
    """The names of the row before and of the row after the change."""
    return [(touch.table, _of(row, key)) for row in (touch.old, touch.new) if row]
