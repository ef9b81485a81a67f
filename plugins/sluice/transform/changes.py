"""Changes of the master become changes of the slave: what a window brings of one table.

The row before and the row after a change are transformed alike, and compared:

| before | after | on the slave |
|---|---|---|
| kept | kept | an UPDATE, or nothing where the slave's columns stay as they are |
| kept | left out, or gone | a DELETE |
| left out, or not there | kept | an INSERT |
| left out, or not there | left out, or gone | nothing |
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluice.database.row_images import MixedShapes, RowImageCodec
from sluice.model.change import Action
from sluice.model.guid import key_text
from sluice.transform.engine import TEXT
from sluice.transform.table_transform import Rows, TableTransform

Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


def of_slave(items: pa.Table, transform: TableTransform, images: RowImageCodec) -> pa.Table:
    """The changes of one table (`sluice.database.items`), with their old images, as the slave gets them.

    Raises `RowNotTransformed`, `MalformedContent`.
    """
    if not items.num_rows:
        return items
    try:
        return _of_slave(items, transform, images)
    except MixedShapes:
        if items.num_rows == 1:
            raise
        # The definition changed among them: rows of one shape after the other.
        parts = [_of_slave(items.slice(place, 1), transform, images) for place in range(items.num_rows)]
        return pa.concat_tables(parts)


def _of_slave(items: pa.Table, transform: TableTransform, images: RowImageCodec) -> pa.Table:
    action = items.column("action")
    inserts, updates, deletes = (
        np.asarray(pc.equal(action, str(each))) for each in (Action.INSERT, Action.UPDATE, Action.DELETE)
    )
    after, before = np.flatnonzero(~deletes), np.flatnonzero(~inserts)
    contents, oldcontents = _whole(items, "content"), _whole(items, "oldcontent")
    sample = contents[int(after[0])] if len(after) else oldcontents[int(before[0])]
    names = tuple(images.row(sample.as_py()))
    new = images.columns(_taken(contents, after), names)
    changed = np.flatnonzero(updates[after])
    # An UPDATE without an old image makes a row anew that a change of the definition changed: it stays in `where`.
    laid = pc.fill_null(_taken(oldcontents, np.flatnonzero(updates)), "")
    turned = images.overlay([_taken(column, changed) for column in new], names, laid)
    gone = images.columns(_taken(oldcontents, np.flatnonzero(deletes)), names)
    # One pass of the engine for all images.
    pools = [pa.concat_arrays(three) for three in zip(new, turned, gone, strict=True)]
    actions = pa.concat_arrays(
        [
            _whole(items, "action").take(pa.array(places))
            for places in (after, np.flatnonzero(updates), np.flatnonzero(deletes))
        ]
    )
    rows = transform.rows(names, pools, actions)
    place_after, place_before = (np.full(items.num_rows, -1, np.int64) for _ in range(2))
    place_after[after] = np.arange(len(after))
    place_before[np.flatnonzero(updates)] = len(after) + np.arange(len(turned[0]) if turned else 0)
    place_before[np.flatnonzero(deletes)] = len(after) + int(updates.sum()) + np.arange(int(deletes.sum()))
    plain = frozenset(names) if images.is_plain(contents) and images.is_plain(oldcontents) else frozenset()
    return _written(items, transform, images, (names, pools), rows, place_before, place_after, plain)


def _written(
    items: pa.Table,
    transform: TableTransform,
    images: RowImageCodec,
    master: tuple[tuple[str, ...], list[pa.Array]],
    rows: Rows,
    before: Places,
    after: Places,
    plain: frozenset[str],
) -> pa.Table:
    """The items anew. `before`, `after`: where each one's images are among the rows, -1 for none.

    `plain`: columns of the master whose values need no protection in a content.
    """
    unprotected = transform.untouched(plain)
    if rows.kept is not None:
        before, after = (np.where((each >= 0) & rows.kept[each], each, -1) for each in (before, after))
    stays = (before >= 0) & (after >= 0)
    differs = _differences(rows, before[stays], after[stays])
    silent = np.asarray(pc.is_null(_whole(items, "oldcontent"))) & stays
    same = np.zeros(items.num_rows, dtype=bool)
    same[np.flatnonzero(stays)[~np.logical_or.reduce([*differs, silent[stays]])]] = True
    left = np.flatnonzero(((before >= 0) | (after >= 0)) & ~same)
    before, after = before[left], after[left]
    shown = [_taken(column, after[after >= 0]) for column in rows.columns]
    contents = images.written(rows.names, shown, plain=unprotected)
    key = transform.key()
    stayed = (before >= 0) & (after >= 0)
    kept = ~same[np.flatnonzero(stays)]
    # An UPDATE's old image names what it changed, and the key; a DELETE's the whole row.
    gone = stayed[before >= 0]
    only: list[pa.Array | None] = []
    for name, flags in zip(rows.names, differs, strict=True):
        named = np.ones(len(gone), dtype=bool)
        if name not in key:
            named[gone] = flags[kept]
        only.append(None if named.all() else pa.array(named))
    old = images.written(
        rows.names, [_taken(column, before[before >= 0]) for column in rows.columns], only, unprotected
    )
    result = items.take(pa.array(left))
    words = np.where(stayed, "UPDATE", np.where(after >= 0, "INSERT", "DELETE"))
    columns = {
        "action": pa.array(words, TEXT),
        "content": _in_place(contents, after >= 0),
        "oldcontent": pc.if_else(pa.array(silent[left]), pa.scalar(None, TEXT), _in_place(old, before >= 0)),
        "guid": _guids(result, transform, master, before, after),
    }
    for label, values in columns.items():
        result = result.set_column(result.column_names.index(label), label, values)
    return result


def _differences(rows: Rows, before: Places, after: Places) -> list[Flags]:
    """For each column in which of the rows that stay it differs."""
    found = []
    for column in rows.columns:
        one, other = _taken(column, before), _taken(column, after)
        equal = pc.fill_null(pc.equal(one, other), pa.scalar(False))
        neither = pc.and_(pc.is_null(one), pc.is_null(other))
        found.append(~np.asarray(pc.or_(equal, neither)))
    return found


def _guids(
    items: pa.Table,
    transform: TableTransform,
    master: tuple[tuple[str, ...], list[pa.Array]],
    before: Places,
    after: Places,
) -> pa.Array:
    """The keys as texts. An UPDATE that changed the key has none; half of it, where one image is left out, has one."""
    guids = _whole(items, "guid")
    halves = np.flatnonzero(np.asarray(pc.is_null(guids)) & ((before < 0) | (after < 0)))
    if not len(halves):
        return guids
    names, pools = master
    key = [column.name for column in transform.master.key]
    columns = [pools[names.index(name)] for name in key]
    texts = guids.to_pylist()
    for place in halves.tolist():
        row = int(max(before[place], after[place]))
        texts[place] = key_text({name: column[row].as_py() for name, column in zip(key, columns, strict=True)}, key)
    return pa.array(texts, TEXT)


def _taken(column: pa.Array, places: Places) -> pa.Array:
    if len(places) and int(places[-1]) - int(places[0]) == len(places) - 1 and (np.diff(places) == 1).all():
        return column.slice(int(places[0]), len(places))  # mostly: nothing is copied
    return column.take(pa.array(places))


def _in_place(texts: pa.Array, there: Flags) -> pa.Array:
    """`texts` where one is `there`, NULL elsewhere."""
    places = np.cumsum(there) - 1
    return texts.take(pa.array(places, pa.int64(), mask=~there))


def _whole(items: pa.Table, label: str) -> pa.Array:
    column = items.column(label)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
