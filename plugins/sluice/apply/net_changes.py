"""Computes the net change of each key of a window: of all changes of a row, at most one remains.

    key_events = events(items, key, images)     # appearances and disappearances of keys, in order
    keep = ...                                  # optional: a boolean for each event
    changes = reduce(key_events, keep)          # NetChanges

An item is one event of its key. An UPDATE that changes the key is two: the old key disappears and the new key appears;
each is kept or dropped on its own. The first event of a key says whether the row existed before the window, the last
one whether it exists afterwards and with which values. Only the row images of these are parsed.

A row whose key changes becomes a move, from the key that the slave has to the last one, over any chain of keys between.
So no row is deleted that others refer to.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply.key_events import (
    TEXT,
    Flags,
    Indices,
    KeyEvents,
    WrongKey,
    changed_key_texts,
    events,
    kept_items,
    matches,
    rows_at,
    split_keys,
    table_name,
    without,
)
from sluice.database.errors import TableFailure
from sluice.database.items import one_array
from sluice.database.net_changes import NetChanges
from sluice.database.row_images import RowImageCodec
from sluice.model.names import TableName

# Parses the images of rows: their values after a window's changes, and before them.
#
# Two items of the window determine a row: its first change (`begins`) and its last one (`ends`). A few threads
# parse pieces of many rows side by side: Arrow's kernels do not hold Python's lock.

PIECE = 50_000
"""Rows that one thread parses at a time."""
_THREADS = min(4, os.cpu_count() or 1)

Images = dict[str, pa.Array | pa.ChunkedArray]
"""Columns by label: `c1`… the values after the last change, `b1`… those before the first (see `NetChanges`)."""


@dataclass(frozen=True)
class ImageColumns:
    """Which columns to return."""

    width: Sequence[str]
    """Names of all columns."""
    skip: Sequence[str]
    """Columns without a `b` column."""
    former: bool
    """Whether to return the `b` columns."""
    now: bool = True
    """Whether to return the `c` columns."""


def images(key_events: KeyEvents, begins: Indices, ends: Indices, columns: ImageColumns) -> Images:
    """These columns of the rows whose first and last changes are `begins` and `ends`.

    A `b` column is left out if no row's former value differs from its present one. Raises
    `MixedShapes`, `malformed-content`.
    """

    def piece(at: int) -> Images:
        rows = slice(at, at + PIECE)
        return _piece(key_events.items, key_events.images, begins[rows], ends[rows], columns)

    if not len(ends):
        numbers = range(1, len(columns.width) + 1) if columns.now else ()
        return {f"c{number}": pa.array([], TEXT) for number in numbers}
    if not columns.now and not columns.former:
        return {}
    pieces = _each(piece, range(0, len(ends), PIECE))
    if len(pieces) == 1:
        return pieces[0]
    labels = [f"{letter}{number}" for letter in "cb" for number in range(1, len(columns.width) + 1)]
    return {
        label: pa.chunked_array([each[label] if label in each else each[f"c{label[1:]}"] for each in pieces], TEXT)
        for label in labels
        if any(label in each for each in pieces)
    }


def _piece(items: pa.Table, codec: RowImageCodec, begins: Indices, ends: Indices, columns: ImageColumns) -> Images:
    width = columns.width
    values = codec.columns(rows_at(items.column("content"), ends), width) if columns.now else None
    result = {f"c{number}": value for number, value in enumerate(values or (), start=1)}
    if not columns.former:
        return result
    content, old = (rows_at(items.column(label), begins) for label in ("content", "oldcontent"))
    # A DELETE has no content, and its OLDCONTENT is complete. That of an UPDATE overlays its content.
    deletes = np.asarray(pc.is_null(content))
    overlays = pc.if_else(pa.array(deletes), pa.scalar("", content.type), old) if deletes.any() else old
    unparsed = np.ones(len(begins), dtype=bool) if values is None else begins != ends
    base = list(values or ())
    if unparsed.any():
        # Rows that changed several times: the content of their first change is not parsed yet.
        other = codec.columns(pc.coalesce(content, old).filter(pa.array(unparsed)), width)
        order = np.arange(len(begins))
        order[unparsed] = len(begins) + np.arange(int(unparsed.sum()))
        base = (
            other
            if values is None
            else [pa.concat_arrays([one, two]).take(pa.array(order)) for one, two in zip(values, other, strict=True)]
        )
    before = codec.overlay(base, width, overlays, skip=columns.skip) if not deletes.all() else base
    for number, (name, was) in enumerate(zip(width, before, strict=True), start=1):
        if name not in columns.skip and (values is None or not _alike(was, values[number - 1])):
            result[f"b{number}"] = was
    return result


def _alike(one: pa.Array, other: pa.Array) -> bool:
    return one is other or bool(one.equals(other))


def _each(task: Callable[[int], Images], parts: Sequence[int]) -> list[Images]:
    return list(_threads().map(task, parts)) if len(parts) > 1 else [task(part) for part in parts]


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="sluice-images")


__all__ = [
    "KeyEvents",
    "WrongKey",
    "changed_key_texts",
    "events",
    "former_known",
    "kept_items",
    "reduce",
    "reduce_each",
    "without",
]

_INSERTED = -1
"""The origin of a row that the window itself inserted."""


class NoColumns(TableFailure):
    """A keyless table without replicated columns: its rows cannot be counted."""

    def __init__(self, table: TableName):
        super().__init__(table, f"{table} has no column that is replicated. Take it out of the replication's tables.")


def reduce(
    key_events: KeyEvents, keep: Flags | None = None, *, before: bool = False, safe: bool = False, whole: bool = False
) -> NetChanges:
    """The net change of each key. `keep`: a boolean for each event, None keeps all.

    `before` adds the old images (`b` columns), `whole` also those of the key's columns; the items must then have
    OLDCONTENT. An UPDATE without OLDCONTENT has unknown former values (a change of the definition rewrote the rows):
    then nothing is compared. `safe`: the slave may already be anywhere in the window, so every key that ends without a
    row is deleted, also one that the window inserted. Raises `MixedShapes`, `malformed-content`.
    """
    chosen = np.arange(len(key_events)) if keep is None else np.flatnonzero(np.asarray(keep, dtype=bool))
    items = key_events.items
    table = table_name(items)
    if not len(chosen):
        return _empty(table, key_events.key, items.num_rows)
    if not key_events.key:
        return _multiset(table, items.take(pa.array(key_events.item[chosen])), key_events.images, items.num_rows)

    guid = key_events.guid if keep is None else key_events.guid.take(pa.array(chosen))
    return _net(key_events, _fates(key_events, chosen, guid, safe=safe), before=before, whole=whole)


def reduce_each(
    key_events: KeyEvents, begins: Mapping[TableName, int], *, before: bool = False, safe: bool = False
) -> list[NetChanges]:
    """As `reduce`, for several tables of the same columns and key, whose items follow one another table by table.

    `begins`: the index of each table's first item. Nothing is compared unless all tables' former values are known.
    """
    bounds = np.array([*begins.values(), key_events.items.num_rows])
    table_of = np.searchsorted(bounds, key_events.item, side="right")
    fates = _fates(key_events, np.arange(len(key_events)), key_events.guid, table_of, safe=safe)
    net = _net(key_events, fates, before=before, whole=False)
    # Keys are in the order of their items, hence table by table.
    places = {
        "deletes": fates.begins[fates.deleted],
        "updates": fates.ends[fates.updated],
        "moves": fates.ends[fates.moved_to],
        "inserts": fates.ends[fates.inserted],
    }
    cuts = {kind: np.searchsorted(items, bounds).tolist() for kind, items in places.items()}

    def share(kind: str, number: int) -> pa.Table:
        begin, end = cuts[kind][number : number + 2]
        return getattr(net, kind).slice(begin, end - begin)

    return [
        replace(net, table=table, changes=changes, **{kind: share(kind, number) for kind in cuts})
        for number, (table, changes) in enumerate(zip(begins, np.diff(bounds).tolist(), strict=True))
    ]


def _net(key_events: KeyEvents, fates: "_Fates", *, before: bool, whole: bool) -> NetChanges:
    items, first, begins, ends, inserted = key_events.items, fates.first, fates.begins, fates.ends, fates.inserted
    width = _names(items, key_events)
    columns = ImageColumns(
        width, () if whole else key_events.key, former=before and bool(width) and former_known(items)
    )

    def images_of(comes_from: Indices, goes_to: Indices, columns: ImageColumns = columns) -> Images:
        return images(key_events, begins[comes_from], ends[goes_to], columns)

    old_keys = split_keys(key_events.guid.take(pa.array(first[fates.moved_from])), len(key_events.key))
    deletes = {
        **_numbered("k", split_keys(key_events.guid.take(pa.array(first[fates.deleted])), len(key_events.key))),
        **images_of(fates.deleted, fates.deleted, replace(columns, now=False)),
    }
    moves = {**_numbered("k", old_keys), **images_of(fates.moved_from, fates.moved_to)}
    inserts = images_of(inserted, inserted, replace(columns, former=False))
    return NetChanges(
        table_name(items),
        width,
        key_events.key,
        pa.table(deletes),
        pa.table(images_of(fates.updated, fates.updated)),
        pa.table(moves),
        pa.table(inserts),
        items.num_rows,
        columns.former,
    )


@dataclass(frozen=True)
class _Fates:
    """What happens to each key: indices of distinct keys, in the order of the window.

    That is mostly the order of the slave's pages, and avoids copies.
    """

    deleted: Indices
    updated: Indices
    """The row keeps its key."""
    moved_from: Indices
    moved_to: Indices
    inserted: Indices
    first: Indices
    """The first event of each key."""
    begins: Indices
    ends: Indices
    """The items of its first and of its last event."""


def _fates(
    key_events: KeyEvents, chosen: Indices, guid: pa.Array, table_of: Indices | None = None, *, safe: bool
) -> _Fates:
    """`guid`: the keys of the `chosen` events; `table_of`: their tables, None for one table; `safe`: as of `reduce`."""
    first, last, code = _ends(guid, table_of)
    first, last = chosen[first], chosen[last]
    was, stays = key_events.before[first], key_events.after[last]
    moving = key_events.partner[chosen] >= 0
    if moving.any():
        # Only the keys of key changes need to be followed row by row.
        touched = np.zeros(len(first), dtype=bool)
        touched[code[moving]] = True
        gone, last_keys, origins = _follow(key_events, chosen, code, touched[code])
        unmoved = ~touched
    else:
        unmoved = np.ones(len(first), dtype=bool)
        gone = last_keys = origins = np.empty(0, dtype=np.int64)
    deleted = np.flatnonzero(~stays) if safe else np.concatenate([np.flatnonzero(unmoved & was & ~stays), gone])
    updated = np.concatenate([np.flatnonzero(unmoved & was & stays), last_keys[last_keys == origins]])
    moved = (last_keys != origins) & (origins != _INSERTED)
    inserted = np.concatenate([np.flatnonzero(unmoved & ~was & stays), last_keys[origins == _INSERTED]])
    begins, ends = key_events.item[first], key_events.item[last]
    order = np.argsort(ends[last_keys[moved]], kind="stable")
    return _Fates(
        _sorted(deleted, begins),
        _sorted(updated, ends),
        origins[moved][order],
        last_keys[moved][order],
        _sorted(inserted, ends),
        first,
        begins,
        ends,
    )


def _ends(guid: pa.Array, table_of: Indices | None = None) -> tuple[Indices, Indices, Indices]:
    """For each distinct key the index of its first and last event; and for each event its key's code."""
    encoded = one_array(guid).dictionary_encode()
    code = np.asarray(encoded.indices).astype(np.int64)
    keys = len(encoded.dictionary)
    if table_of is not None:
        distinct, code = np.unique(table_of * keys + code, return_inverse=True)
        keys = len(distinct)
    indices = np.arange(len(code))
    last = np.empty(keys, dtype=np.int64)
    first = np.empty_like(last)
    last[code] = indices  # of several assignments to an index, the last one remains
    first[code[::-1]] = indices[::-1]
    return first, last, code


def _follow(key_events: KeyEvents, chosen: Indices, code: Indices, among: Flags) -> tuple[Indices, Indices, Indices]:
    """Follows the rows of the keys in `among` over key changes.

    Returns the first keys of rows that are deleted, and of those that remain the last key and the first one (their
    origin).
    """
    indices = np.flatnonzero(among)
    code_of = dict(zip(chosen[indices].tolist(), code[indices].tolist(), strict=True))
    origin_of: dict[int, int] = {}  # key → the first key of the row that has it now
    passed: set[int] = set()
    gone: list[int] = []
    partner = key_events.partner
    moving: dict[int, int] = {}  # event of the new key → the first key of the row that moves there
    for event, key in code_of.items():
        was, stays = bool(key_events.before[event]), bool(key_events.after[event])
        if was and key not in passed:
            origin_of[key] = key
        passed.add(key)
        other = int(partner[event])
        if was and stays:
            origin_of.setdefault(key, key)
        elif was:
            origin = origin_of.pop(key, key)
            if other in code_of and other > event:
                moving[other] = origin
            elif origin != _INSERTED:
                gone.append(origin)
        else:
            origin_of[key] = moving.pop(event, _INSERTED)
    return (
        np.array(gone, dtype=np.int64),
        np.fromiter(origin_of.keys(), np.int64, len(origin_of)),
        np.fromiter(origin_of.values(), np.int64, len(origin_of)),
    )


def _sorted(keys: Indices, by: Indices) -> Indices:
    return keys[np.argsort(by[keys], kind="stable")]


def former_known(items: pa.Table) -> bool:
    """Whether every change has its old image."""
    silent = pc.and_(pc.is_null(items.column("oldcontent")), pc.not_equal(items.column("action"), "INSERT"))
    return not pc.any(silent).as_py()


def _multiset(table: TableName, items: pa.Table, images: RowImageCodec, changes: int) -> NetChanges:
    """The net change of a keyless table: how many copies of each distinct row are inserted or deleted."""
    action = one_array(items.column("action"))
    content, old = one_array(items.column("content")), one_array(items.column("oldcontent"))
    inserted, deleted, updated = (matches(action, word) for word in ("INSERT", "DELETE", "UPDATE"))
    new_at, deleted_at, updated_at = (np.flatnonzero(flags) for flags in (inserted | updated, deleted, updated))
    sample = content[int(new_at[0])] if len(new_at) else old[int(deleted_at[0])]
    width = tuple(images.row(sample.as_py()))
    if not width:
        raise NoColumns(table)
    new = images.columns(content.take(pa.array(new_at)), width)
    gone = images.columns(old.take(pa.array(deleted_at)), width)
    updates = content.take(pa.array(updated_at))
    former = images.overlay(images.columns(updates, width), width, old.take(pa.array(updated_at)))
    rows = pa.table(_numbered("c", [pa.concat_arrays(three) for three in zip(new, gone, former, strict=True)]))
    sign = np.concatenate([np.ones(len(new_at), np.int64), np.full(len(deleted_at) + len(updated_at), -1, np.int64)])
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


def _names(items: pa.Table, key_events: KeyEvents) -> tuple[str, ...]:
    """The columns, from the first row that has any."""
    for label in ("content", "oldcontent"):
        column = items.column(label)
        present = pc.index(pc.is_valid(column), pa.scalar(True)).as_py()
        if present >= 0 and column[present].as_py():
            return tuple(key_events.images.row(column[present].as_py()))
    return key_events.key


def _empty(table: TableName, key: tuple[str, ...], changes: int) -> NetChanges:
    nothing = pa.table({})
    return NetChanges(table, (), key, nothing, nothing, nothing, nothing, changes)


def _numbered(letter: str, arrays: Sequence[pa.Array]) -> dict[str, pa.Array]:
    return {f"{letter}{number}": array for number, array in enumerate(arrays, start=1)}
