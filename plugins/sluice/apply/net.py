"""The net change of each key of a window: of any number of changes of a row, one remains.

    found = events(items, key)                  # who appears and disappears, in order
    keep = ...                                  # optional: a boolean for each event, by its marker
    changes = reduce(found, keep)               # NetChanges

An item is one event of its key; an UPDATE that changes the key is two, the old key's
disappearance and the new key's appearance, and each is kept or dropped by itself. Of a key's
events the first says whether the row was there before, the last whether it is there after and
with which values. Only the contents that survive are taken apart.

A row that changes its key lives on: it becomes a move from the key under which the slave holds it
to its last one, whatever chain lies between, so that no row is deleted that others refer to.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply.content import TEXT, columns, names, overlay
from sluice.domain import content as reference
from sluice.domain.change import NetChanges
from sluice.domain.names import TableName
from sluice.errors import Terminal

Flags = np.ndarray[Any, np.dtype[np.bool_]]
Indices = np.ndarray[Any, np.dtype[np.int64]]

_BORN = -1
"""Origin of a row that the window itself inserted."""


class NotRowChanges(Terminal):
    """The caller's mistake: a TRUNCATE or DDL item among changes of rows; it must cut the stream."""


@dataclass(frozen=True)
class Events:
    """Appearances and disappearances of keys, in REPL_KEY order.

    `guid`: the key's text (large_string); `item`: the row of `items` it comes from; `before` and
    `after`: the key's presence; `partner`: the other event of a key change, -1 for none.
    """

    items: Any
    key: tuple[str, ...]
    guid: Any
    item: Indices
    before: Flags
    after: Flags
    partner: Indices

    def __len__(self) -> int:
        return len(self.item)

    @property
    def transactions(self) -> Any:
        """TRANS_KEY of each event, for decisions by marker."""
        return self.items.column("trans_key").take(pa.array(self.item))

    def key_values(self) -> list[Any]:
        """Each event's key, one array of texts a key column."""
        return _split_keys(self.guid, len(self.key))


def events(items: Any, key: Sequence[str]) -> Events:
    """The events of `items`: all of one table, in REPL_KEY order, of one definition, rows only.

    `items`: columns repl_key, trans_key, schema, table, guid, action, content, oldcontent (the
    latter may be null where neither the key nor old images need it). `key`: the master's key
    columns, in its order; empty for a keyless table. Raises `NotRowChanges`, `MalformedContent`.
    """
    action = _whole(items.column("action"))
    inserted, deleted = _is(action, "INSERT"), _is(action, "DELETE")
    updated = _is(action, "UPDATE")
    if not (inserted | deleted | updated).all():
        raise NotRowChanges("TRUNCATE and DDL items must cut the stream: they are applied between two batches.")
    count = len(action)
    guid = _whole(items.column("guid"))
    if not key:
        nobody = pa.nulls(count, TEXT)
        return Events(items, (), nobody, np.arange(count), ~inserted, ~deleted, np.full(count, -1))
    changing = np.flatnonzero(updated & np.asarray(pc.is_null(guid)))
    if not len(changing):
        return Events(items, tuple(key), guid, np.arange(count), ~inserted, ~deleted, np.full(count, -1))
    times = np.ones(count, dtype=np.int64)
    times[changing] = 2
    item = np.repeat(np.arange(count), times)
    goes = changing + np.arange(len(changing))  # the event of the old key, the new one's follows
    old, new = _changed_keys(items, changing, key)
    pool = pa.concat_arrays([guid, old, new])
    source = item.copy()
    source[goes] = count + np.arange(len(changing))
    source[goes + 1] = count + len(changing) + np.arange(len(changing))
    before, after = ~inserted[item], ~deleted[item]
    after[goes] = False
    before[goes + 1] = False
    partner = np.full(len(item), -1, dtype=np.int64)
    partner[goes], partner[goes + 1] = goes + 1, goes
    return Events(items, tuple(key), pool.take(pa.array(source)), item, before, after, partner)


def entangled(items: Any, key: Sequence[str]) -> set[str]:
    """The key texts, old and new, of the UPDATEs in `items` that change a key.

    All changes of these keys must be reduced together; the shares of a window leave them out.
    """
    changing = np.flatnonzero(
        _is(_whole(items.column("action")), "UPDATE") & np.asarray(pc.is_null(_whole(items.column("guid"))))
    )
    if not len(changing):
        return set()
    old, new = _changed_keys(items, changing, key)
    return {*old.to_pylist(), *new.to_pylist()}


def without(items: Any, guids: Collection[str]) -> Any:
    """`items` without the changes of the keys `guids`, and without UPDATEs that change a key."""
    kept = pc.is_valid(items.column("guid"))
    if guids:
        kept = pc.and_(kept, pc.invert(pc.is_in(items.column("guid"), pa.array(sorted(guids), TEXT))))
    return items.filter(kept)


def kept_items(found: Events, keep: Any) -> Any:
    """The items whose events are kept, for a replay. Of a key change kept by half, that half.

    The half is an INSERT of the new row or a DELETE of the old key.
    """
    kept = np.asarray(keep, dtype=bool)
    items = found.items
    whole = np.zeros(items.num_rows, dtype=bool)
    whole[found.item[kept & (found.partner < 0)]] = True
    pairs = np.flatnonzero((found.partner >= 0) & kept)
    both = pairs[kept[found.partner[pairs]]]
    whole[found.item[both]] = True
    halves = pairs[~kept[found.partner[pairs]]]
    if not len(halves):
        return items.filter(pa.array(whole))
    goes = found.before[halves]
    rows = items.take(pa.array(found.item[halves]))
    nothing = pa.scalar(None, TEXT)
    replaced = {
        "guid": found.guid.take(pa.array(halves)),
        "action": pc.if_else(pa.array(goes), pa.scalar("DELETE", TEXT), pa.scalar("INSERT", TEXT)),
        "content": pc.if_else(pa.array(goes), nothing, _whole(rows.column("content"))),
        "oldcontent": pc.if_else(pa.array(goes), _whole(rows.column("oldcontent")), nothing),
    }
    for label, values in replaced.items():
        rows = rows.set_column(rows.column_names.index(label), label, values)
    merged = pa.concat_tables([items.filter(pa.array(whole)), rows.cast(items.schema)])
    return merged.sort_by("repl_key")


def reduce(found: Events, keep: Any = None, *, before: bool = False) -> NetChanges:
    """The net change of each key. `keep`: a boolean array over the events, None keeps all.

    `before` adds the old images (`b` columns), which costs the parsing of one more content a row;
    `items` must then carry OLDCONTENT. Raises `MixedShapes`, `MalformedContent`.
    """
    chosen = np.arange(len(found)) if keep is None else np.flatnonzero(np.asarray(keep, dtype=bool))
    items = found.items
    table = _table_name(items)
    if not len(chosen):
        return _empty(table, found.key, items.num_rows)
    if not found.key:
        return _multiset(table, items.take(pa.array(found.item[chosen])), items.num_rows)

    first, last, code = _ends(found.guid if keep is None else found.guid.take(pa.array(chosen)))
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

    dead = np.concatenate([np.flatnonzero(settled & was & ~stays), gone])
    same = np.concatenate([np.flatnonzero(settled & was & stays), ended[ended == begun]])
    moved_to, moved_from = ended[(ended != begun) & (begun != _BORN)], begun[(ended != begun) & (begun != _BORN)]
    fresh = np.concatenate([np.flatnonzero(settled & ~was & stays), ended[begun == _BORN]])

    alive = np.concatenate([same, moved_to, fresh])
    contents = _whole(items.column("content")).take(pa.array(found.item[last[alive]]))
    width = _names(items, found)
    values = columns(contents, width)
    guids = found.guid
    old_images = _old_images(found, first, width) if before else None

    def part(start: int, stop: int) -> list[Any]:
        return [value.slice(start, stop - start) for value in values]

    def images(keys: Indices) -> dict[str, Any]:
        return {} if old_images is None else _numbered("b", old_images(keys))

    n_same, n_moved = len(same), len(moved_to)
    deletes = {**_numbered("k", _delete_keys(found, dead, first)), **images(dead)}
    updates = {**_numbered("c", part(0, n_same)), **images(same)}
    old_keys = _split_keys(guids.take(pa.array(first[moved_from])), len(found.key))
    moves = {**_numbered("k", old_keys), **_numbered("c", part(n_same, n_same + n_moved)), **images(moved_from)}
    inserts = _numbered("c", part(n_same + n_moved, len(alive)))
    return NetChanges(
        table,
        width,
        found.key,
        pa.table(deletes),
        pa.table(updates),
        pa.table(moves),
        pa.table(inserts),
        items.num_rows,
    )


def _ends(guid: Any) -> tuple[Indices, Indices, Indices]:
    """For each distinct key, in order of first appearance: its first and last place, and each place's key."""
    encoded = _whole(guid).dictionary_encode()
    code = np.asarray(encoded.indices).astype(np.int64)
    places = np.arange(len(code))
    last = np.empty(len(encoded.dictionary), dtype=np.int64)
    first = np.empty_like(last)
    last[code] = places  # the last assignment to an index stays
    first[code[::-1]] = places[::-1]
    return first, last, code


def _follow(found: Events, chosen: Indices, code: Indices, among: Flags) -> tuple[Indices, Indices, Indices]:
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


def _changed_keys(items: Any, changing: Indices, key: Sequence[str]) -> tuple[Any, Any]:
    """Old and new key texts of the items at `changing`."""
    contents = _whole(items.column("content")).take(pa.array(changing))
    width = names(contents[0].as_py())
    values = columns(contents, width)
    places = [width.index(name) for name in key]
    new = [values[place] for place in places]
    old = overlay(new, key, _whole(items.column("oldcontent")).take(pa.array(changing)))
    return _join_keys(old), _join_keys(new)


def _join_keys(values: Sequence[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    pieces: list[Any] = []
    for value in values:
        pieces += [pc.utf8_length(value).cast(TEXT), pa.scalar(":", TEXT), value]
    return pc.binary_join_element_wise(*pieces, pa.scalar("", TEXT))


def _split_keys(guids: Any, parts: int) -> list[Any]:
    whole = _whole(guids)
    if parts == 1:
        return [whole]
    rows = [reference.key_values(guid, parts) for guid in whole.to_pylist()]
    return [pa.array([row[number] for row in rows], TEXT) for number in range(parts)]


def _delete_keys(found: Events, dead: Indices, first: Indices) -> list[Any]:
    """The keys of rows that go: from the first event's key text."""
    return _split_keys(found.guid.take(pa.array(first[dead])), len(found.key))


def _old_images(found: Events, first: Indices, width: tuple[str, ...]) -> Any:
    contents, olds = _whole(found.items.column("content")), _whole(found.items.column("oldcontent"))

    def of(keys: Indices) -> list[Any]:
        item = pa.array(found.item[first[keys]])
        content, old = contents.take(item), olds.take(item)
        # A DELETE has no content: its OLDCONTENT is whole. Only an UPDATE's is laid over its content.
        bare = np.asarray(pc.is_null(content))
        if bare.all():
            return columns(old, width)
        if not bare.any():
            return overlay(columns(content, width), width, old)
        order = np.empty(len(bare), dtype=np.int64)
        order[np.concatenate([np.flatnonzero(bare), np.flatnonzero(~bare)])] = np.arange(len(bare))
        there = pa.array(~bare)
        laid = overlay(columns(content.filter(there), width), width, old.filter(there))
        whole = columns(old.filter(pa.array(bare)), width)
        return [pa.concat_arrays(two).take(pa.array(order)) for two in zip(whole, laid, strict=True)]

    return of


def _multiset(table: TableName, items: Any, changes: int) -> NetChanges:
    """Keyless: for each distinct row how many copies come or go."""
    action = _whole(items.column("action"))
    content, old = _whole(items.column("content")), _whole(items.column("oldcontent"))
    inserted, deleted, updated = (_is(action, word) for word in ("INSERT", "DELETE", "UPDATE"))
    comes, goes, turns = (np.flatnonzero(flags) for flags in (inserted | updated, deleted, updated))
    sample = content[int(comes[0])] if len(comes) else old[int(goes[0])]
    width = names(sample.as_py())
    new = columns(content.take(pa.array(comes)), width)
    gone = columns(old.take(pa.array(goes)), width)
    turned = content.take(pa.array(turns))
    previous = overlay(columns(turned, width), width, old.take(pa.array(turns)))
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


def _names(items: Any, found: Events) -> tuple[str, ...]:
    """The columns, from the first row that has any."""
    for label in ("content", "oldcontent"):
        column = _whole(items.column(label))
        present = pc.index(pc.is_valid(column), pa.scalar(True)).as_py()
        if present >= 0 and column[present].as_py():
            return names(column[present].as_py())
    return found.key


def _table_name(items: Any) -> TableName:
    if not items.num_rows:
        return TableName("", "")
    return TableName(items.column("schema")[0].as_py(), items.column("table")[0].as_py())


def _empty(table: TableName, key: tuple[str, ...], changes: int) -> NetChanges:
    nothing = pa.table({})
    return NetChanges(table, (), key, nothing, nothing, nothing, nothing, changes)


def _numbered(letter: str, arrays: Sequence[Any]) -> dict[str, Any]:
    return {f"{letter}{number}": array for number, array in enumerate(arrays, start=1)}


def _is(action: Any, word: str) -> Flags:
    flags: Flags = np.asarray(pc.equal(action, word))
    return flags


def _whole(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
