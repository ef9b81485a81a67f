"""The net change of each key of a window: of any number of changes of a row, one remains.

    found = events(items, key, images)          # who appears and disappears, in order
    keep = ...                                  # optional: a boolean for each event, by its marker
    changes = reduce(found, keep)               # NetChanges

An item is one event of its key; an UPDATE that changes the key is two, the old key's
disappearance and the new key's appearance, and each is kept or dropped by itself. Of a key's
events the first says whether the row was there before, the last whether it is there after and
with which values. Only the contents that survive are taken apart.

A row that changes its key lives on: it becomes a move from the key under which the slave holds it
to its last one, whatever chain lies between, so that no row is deleted that others refer to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply import row_images
from sluice.apply.key_events import (
    Flags,
    Indices,
    KeyEvents,
    NotRowChanges,
    WrongKey,
    changed_key_texts,
    events,
    kept_items,
    matches,
    one_array,
    split_keys,
    table_name,
    without,
)
from sluice.apply.row_images import Wanted
from sluice.database.net_changes import NetChanges
from sluice.database.row_images import RowImageCodec
from sluice.errors import Terminal
from sluice.model.names import TableName

__all__ = [
    "KeyEvents",
    "NotRowChanges",
    "WrongKey",
    "changed_key_texts",
    "events",
    "former_known",
    "kept_items",
    "reduce",
    "reduce_each",
    "without",
]

_BORN = -1
"""Origin of a row that the window itself inserted."""


class NoColumns(Terminal):
    """Rows without a single replicated column cannot be counted."""

    def __init__(self, table: TableName):
        super().__init__(f"{table} has no column that is replicated. Take it out of the replication's tables.")
        self.table = table


def reduce(
    found: KeyEvents, keep: Flags | None = None, *, before: bool = False, safe: bool = False, whole: bool = False
) -> NetChanges:
    """The net change of each key. `keep`: a boolean array over the events, None keeps all.

    `before` adds the old images (`b` columns), `whole` those of the key's columns too; `items` must then
    carry OLDCONTENT. An UPDATE under its key without one says that the former values are not known (rows
    that a change of the table's definition made anew): then nothing is compared. `safe`: the slave may
    stand anywhere in the window already, so every key that ends without a row is deleted, also one that
    the window itself brought. Raises `MixedShapes`, `MalformedContent`.
    """
    chosen = np.arange(len(found)) if keep is None else np.flatnonzero(np.asarray(keep, dtype=bool))
    items = found.items
    table = table_name(items)
    if not len(chosen):
        return _empty(table, found.key, items.num_rows)
    if not found.key:
        return _multiset(table, items.take(pa.array(found.item[chosen])), found.images, items.num_rows)

    guid = found.guid if keep is None else found.guid.take(pa.array(chosen))
    return _net(found, _fates(found, chosen, guid, safe=safe), before=before, whole=whole)


def reduce_each(
    found: KeyEvents, begins: Mapping[TableName, int], *, before: bool = False, safe: bool = False
) -> list[NetChanges]:
    """The same for several tables of the same columns and key, whose items lie table by table.

    `begins`: where in them each table's begin. They are compared when all of them say what their rows were before.
    """
    bounds = np.array([*begins.values(), found.items.num_rows])
    table_of = np.searchsorted(bounds, found.item, side="right")
    fates = _fates(found, np.arange(len(found)), found.guid, table_of, safe=safe)
    net = _net(found, fates, before=before, whole=False)
    # Keys are in the order of their items, which is that of the tables.
    places = {
        "deletes": fates.begins[fates.dead],
        "updates": fates.ends[fates.same],
        "moves": fates.ends[fates.moved_to],
        "inserts": fates.ends[fates.fresh],
    }
    cuts = {kind: np.searchsorted(items, bounds).tolist() for kind, items in places.items()}

    def share(kind: str, number: int) -> pa.Table:
        begin, end = cuts[kind][number : number + 2]
        return getattr(net, kind).slice(begin, end - begin)

    return [
        replace(net, table=table, changes=changes, **{kind: share(kind, number) for kind in cuts})
        for number, (table, changes) in enumerate(zip(begins, np.diff(bounds).tolist(), strict=True))
    ]


def _net(found: KeyEvents, fates: "_Fates", *, before: bool, whole: bool) -> NetChanges:
    items, first, begins, ends, fresh = found.items, fates.first, fates.begins, fates.ends, fates.fresh
    width = _names(items, found)
    wanted = Wanted(width, () if whole else found.key, former=before and bool(width) and former_known(items))

    def images_of(comes_from: Indices, goes_to: Indices, wanted: Wanted = wanted) -> row_images.Images:
        return row_images.images(found, begins[comes_from], ends[goes_to], wanted)

    old_keys = split_keys(found.guid.take(pa.array(first[fates.moved_from])), len(found.key))
    deletes = {
        **_numbered("k", _delete_keys(found, fates.dead, first)),
        **images_of(fates.dead, fates.dead, replace(wanted, now=False)),
    }
    moves = {**_numbered("k", old_keys), **images_of(fates.moved_from, fates.moved_to)}
    inserts = images_of(fresh, fresh, replace(wanted, former=False))
    return NetChanges(
        table_name(items),
        width,
        found.key,
        pa.table(deletes),
        pa.table(images_of(fates.same, fates.same)),
        pa.table(moves),
        pa.table(inserts),
        items.num_rows,
        wanted.former,
    )


@dataclass(frozen=True)
class _Fates:
    """What becomes of each key, by its place among the distinct ones, in the order of the window.

    That is mostly the order of the slave's pages, and spares copies.
    """

    dead: Indices
    same: Indices
    """The row stays under its key."""
    moved_from: Indices
    moved_to: Indices
    fresh: Indices
    first: Indices
    """The first event of each key."""
    begins: Indices
    ends: Indices
    """The items of its first and of its last event."""


def _fates(found: KeyEvents, chosen: Indices, guid: pa.Array, table_of: Indices | None = None, *, safe: bool) -> _Fates:
    """`guid`: the keys of the `chosen` events; `table_of`: their tables, None: one; `safe`: as of `reduce`."""
    first, last, code = _ends(guid, table_of)
    first, last = chosen[first], chosen[last]
    was, stays = found.before[first], found.after[last]
    moving = found.partner[chosen] >= 0
    if moving.any():
        # Only keys that a key change touches need the row-by-row look at who became whom.
        touched = np.zeros(len(first), dtype=bool)
        touched[code[moving]] = True
        gone, ended, begun = _follow(found, chosen, code, touched[code])
        settled = ~touched
    else:
        settled = np.ones(len(first), dtype=bool)
        gone = ended = begun = np.empty(0, dtype=np.int64)
    dead = np.flatnonzero(~stays) if safe else np.concatenate([np.flatnonzero(settled & was & ~stays), gone])
    same = np.concatenate([np.flatnonzero(settled & was & stays), ended[ended == begun]])
    moved = (ended != begun) & (begun != _BORN)
    fresh = np.concatenate([np.flatnonzero(settled & ~was & stays), ended[begun == _BORN]])
    begins, ends = found.item[first], found.item[last]
    order = np.argsort(ends[ended[moved]], kind="stable")
    return _Fates(
        _sorted(dead, begins),
        _sorted(same, ends),
        begun[moved][order],
        ended[moved][order],
        _sorted(fresh, ends),
        first,
        begins,
        ends,
    )


def _ends(guid: pa.Array, table_of: Indices | None = None) -> tuple[Indices, Indices, Indices]:
    """For each distinct key: its first and last place, and each place's key."""
    encoded = one_array(guid).dictionary_encode()
    code = np.asarray(encoded.indices).astype(np.int64)
    keys = len(encoded.dictionary)
    if table_of is not None:
        distinct, code = np.unique(table_of * keys + code, return_inverse=True)
        keys = len(distinct)
    places = np.arange(len(code))
    last = np.empty(keys, dtype=np.int64)
    first = np.empty_like(last)
    last[code] = places  # the last assignment to an index stays
    first[code[::-1]] = places[::-1]
    return first, last, code


def _follow(found: KeyEvents, chosen: Indices, code: Indices, among: Flags) -> tuple[Indices, Indices, Indices]:
    """Follows the rows of the keys in `among`: keys of rows gone, and of those alive key and origin."""
    places = np.flatnonzero(among)
    code_of = dict(zip(chosen[places].tolist(), code[places].tolist(), strict=True))
    holder: dict[int, int] = {}  # key → where the row it holds now came from
    seen: set[int] = set()
    gone: list[int] = []
    partner = found.partner
    waiting: dict[int, int] = {}  # appearance event → origin of the row that is on its way there
    for event, key in code_of.items():
        was, stays = bool(found.before[event]), bool(found.after[event])
        if was and key not in seen:
            holder[key] = key
        seen.add(key)
        other = int(partner[event])
        if was and stays:
            holder.setdefault(key, key)
        elif was:
            origin = holder.pop(key, key)
            if other in code_of and other > event:
                waiting[other] = origin
            elif origin != _BORN:
                gone.append(origin)
        else:
            holder[key] = waiting.pop(event, _BORN)
    return (
        np.array(gone, dtype=np.int64),
        np.fromiter(holder.keys(), np.int64, len(holder)),
        np.fromiter(holder.values(), np.int64, len(holder)),
    )


def _delete_keys(found: KeyEvents, dead: Indices, first: Indices) -> list[pa.Array]:
    """The keys of rows that go: from the first event's key text."""
    return split_keys(found.guid.take(pa.array(first[dead])), len(found.key))


def _sorted(keys: Indices, by: Indices) -> Indices:
    return keys[np.argsort(by[keys], kind="stable")]


def former_known(items: pa.Table) -> bool:
    """Whether every change says what the row was before it."""
    silent = pc.and_(pc.is_null(items.column("oldcontent")), pc.not_equal(items.column("action"), "INSERT"))
    return not pc.any(silent).as_py()


def _multiset(table: TableName, items: pa.Table, images: RowImageCodec, changes: int) -> NetChanges:
    """Keyless: for each distinct row how many copies come or go."""
    action = one_array(items.column("action"))
    content, old = one_array(items.column("content")), one_array(items.column("oldcontent"))
    inserted, deleted, updated = (matches(action, word) for word in ("INSERT", "DELETE", "UPDATE"))
    comes, goes, turns = (np.flatnonzero(flags) for flags in (inserted | updated, deleted, updated))
    sample = content[int(comes[0])] if len(comes) else old[int(goes[0])]
    width = tuple(images.row(sample.as_py()))
    if not width:
        raise NoColumns(table)
    new = images.columns(content.take(pa.array(comes)), width)
    gone = images.columns(old.take(pa.array(goes)), width)
    turned = content.take(pa.array(turns))
    previous = images.overlay(images.columns(turned, width), width, old.take(pa.array(turns)))
    rows = pa.table(_numbered("c", [pa.concat_arrays(three) for three in zip(new, gone, previous, strict=True)]))
    sign = np.concatenate([np.ones(len(comes), np.int64), np.full(len(goes) + len(turns), -1, np.int64)])
    labels = rows.column_names
    if sign.min() == 1:
        inserts, deletes = rows, rows.slice(0, 0).append_column("copies", pa.array([], pa.int64()))
    else:
        net = rows.append_column("sign", pa.array(sign)).group_by(labels).aggregate([("sign", "sum")])
        net = net.select([*labels, "sign_sum"]).combine_chunks()
        total = np.asarray(net.column("sign_sum"))
        inserts = net.select(labels).take(pa.array(np.repeat(np.arange(len(total)), np.maximum(total, 0))))
        fewer = np.flatnonzero(total < 0)
        deletes = net.select(labels).take(pa.array(fewer)).append_column("copies", pa.array(-total[fewer]))
    nothing = pa.table({})
    return NetChanges(table, width, (), deletes, nothing, nothing, inserts, changes)


def _names(items: pa.Table, found: KeyEvents) -> tuple[str, ...]:
    """The columns, from the first row that has any."""
    for label in ("content", "oldcontent"):
        column = items.column(label)
        present = pc.index(pc.is_valid(column), pa.scalar(True)).as_py()
        if present >= 0 and column[present].as_py():
            return tuple(found.images.row(column[present].as_py()))
    return found.key


def _empty(table: TableName, key: tuple[str, ...], changes: int) -> NetChanges:
    nothing = pa.table({})
    return NetChanges(table, (), key, nothing, nothing, nothing, nothing, changes)


def _numbered(letter: str, arrays: Sequence[pa.Array]) -> dict[str, pa.Array]:
    return {f"{letter}{number}": array for number, array in enumerate(arrays, start=1)}
