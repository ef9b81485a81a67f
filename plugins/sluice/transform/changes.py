"""Transforms the changes of one table in a window to changes of the slave's table.

The row before and the row after each change are transformed and compared:

| before | after | on the slave |
|---|---|---|
| kept | kept | an UPDATE, or nothing if the slave's columns stay as they are |
| kept | left out, or gone | a DELETE |
| left out, or not there | kept | an INSERT |
| left out, or not there | left out, or gone | nothing |

An exit with `extra_key` makes several rows of one: each of them is compared with the one of the same key. An item that
changes several rows of the slave becomes several, with the same REPL_KEY.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.database.items import key_texts, one_array
from sluice.database.row_images import MixedShapes, RowImageCodec
from sluice.model.change import Action
from sluice.transform.engine import TEXT
from sluice.transform.table_transform import Flags, Places, Rows, TableTransform, TransformationInvalid
from sluice.transform.user_exit import codes


@dataclass(frozen=True)
class _RowsOfChanges:
    """The rows before and after some changes, in one list, on the master and on the slave."""

    names: tuple[str, ...]
    master: list[pa.Array]
    """One array for each column of `names`."""
    slave: Rows
    change: Places
    """For each change of the slave the place of its item."""
    before: Places
    """For each change the place of the slave's row before it; -1 where the slave does not have it."""
    after: Places
    """The same for the row after the change."""

    @property
    def stays(self) -> Flags:
        """Which changes have a row on the slave both before and after them."""
        return (self.before >= 0) & (self.after >= 0)

    def of(self, changes: Places) -> "_RowsOfChanges":
        """The same for some of the changes."""
        return replace(self, change=self.change[changes], before=self.before[changes], after=self.after[changes])

    def taken(self, places: Places) -> list[pa.Array]:
        """The slave's columns of the rows at `places`, without the places -1."""
        return [_taken(column, places[places >= 0]) for column in self.slave.columns]


def of_slave(items: pa.Table, transform: TableTransform, images: RowImageCodec) -> pa.Table:
    """Transforms the changes of one table (`sluice.database.items`), which have their old images.

    Where they are in another order than they happened, a change whose row after it is not the last one is followed by
    one from there to the last one; so the last change of each of the slave's rows is right, too. Raises
    `RowNotTransformed`, `TransformationInvalid`, `malformed-content`.
    """
    if not items.num_rows:
        return items
    try:
        return _of_slave(items, transform, images)
    except MixedShapes:
        if items.num_rows == 1:
            raise
        # The definition changed within the window: each change is transformed alone.
        parts = [_of_slave(items.slice(index, 1), transform, images) for index in range(items.num_rows)]
        return pa.concat_tables(parts)


def _of_slave(items: pa.Table, transform: TableTransform, images: RowImageCodec) -> pa.Table:
    action = items.column("action")
    inserts, updates, deletes = (
        np.asarray(pc.equal(action, str(each))) for each in (Action.INSERT, Action.UPDATE, Action.DELETE)
    )
    after, before = np.flatnonzero(~deletes), np.flatnonzero(~inserts)
    contents, oldcontents = one_array(items["content"]), one_array(items["oldcontent"])
    sample = contents[int(after[0])] if len(after) else oldcontents[int(before[0])]
    names = tuple(images.row(sample.as_py()))
    new = images.columns(_taken(contents, after), names)
    changed = np.flatnonzero(updates[after])
    # An UPDATE without an old image rewrites a row after a change of the definition; `where` keeps it as before.
    old_images = _taken(oldcontents, np.flatnonzero(updates))
    if transform.extra_key and old_images.null_count:
        raise _former_unknown(transform)
    old_images = pc.fill_null(old_images, "")
    updated_from = images.overlay([_taken(column, changed) for column in new], names, old_images)
    deleted = images.columns(_taken(oldcontents, np.flatnonzero(deletes)), names)
    # One pass of the engine for all images.
    pools = [pa.concat_arrays(three) for three in zip(new, updated_from, deleted, strict=True)]
    actions = pa.concat_arrays(
        [
            one_array(items["action"]).take(pa.array(places))
            for places in (after, np.flatnonzero(updates), np.flatnonzero(deletes))
        ]
    )
    rows = transform.rows(names, pools, actions)
    # For each image its change, and whether it is the row after it.
    change = np.concatenate([after, np.flatnonzero(updates), np.flatnonzero(deletes)])
    is_after = np.arange(len(change)) < len(after)
    found = _changes(names, pools, rows, change, is_after, items.num_rows, transform)
    if transform.extra_key:
        # The rows that go make place for the others.
        found = found.of(np.lexsort((found.after >= 0, found.change)))
    plain = frozenset(names) if images.is_plain(contents) and images.is_plain(oldcontents) else frozenset()
    return _written(items, transform, images, found, plain)


def _changes(
    names: tuple[str, ...],
    master: list[pa.Array],
    rows: Rows,
    change: Places,
    is_after: Flags,
    items: int,
    transform: TableTransform,
) -> _RowsOfChanges:
    """The changes of the slave. `change` and `is_after`: of each row of the master, the place of its item, and whether
    it is the row after it."""
    changed, now = change[rows.made_of], is_after[rows.made_of]
    number, of_item, count = changed, np.arange(items), items
    if transform.extra_key:
        number = codes(changed, [rows.columns[rows.names.index(name)] for name in transform.extra_key])
        count = len(np.unique(number))
        of_item = np.empty(count, np.int64)
        of_item[number] = changed
    before, after = (np.full(count, -1, np.int64) for _ in range(2))
    before[number[~now]], after[number[now]] = np.flatnonzero(~now), np.flatnonzero(now)
    return _RowsOfChanges(names, master, rows, of_item, before, after)


def _former_unknown(transform: TableTransform) -> TransformationInvalid:
    table = transform.master.table
    why = (
        f"{table}: a change of its definition rewrote rows without saying what they had been, so it is not known which "
        f"rows the exit {transform.rule.exit} had made of them; load the table again"
    )
    return TransformationInvalid(table, transform.rule, [why])


def _written(
    items: pa.Table,
    transform: TableTransform,
    images: RowImageCodec,
    rows: _RowsOfChanges,
    plain: frozenset[str],
) -> pa.Table:
    """The items with the slave's rows, without those that change nothing on the slave.

    `plain`: columns of the master whose values need no escapes in a content.
    """
    unprotected = transform.untouched(plain)
    stays = rows.stays
    differs = _differences(rows.slave, rows.before[stays], rows.after[stays])
    without_old = np.asarray(pc.is_null(one_array(items["oldcontent"])))[rows.change] & stays
    same = np.zeros(len(stays), dtype=bool)
    same[np.flatnonzero(stays)[~np.logical_or.reduce([*differs, without_old[stays]])]] = True
    left = np.flatnonzero(((rows.before >= 0) | (rows.after >= 0)) & ~same)
    rows = rows.of(left)
    has_after, updated = rows.after >= 0, rows.stays[rows.before >= 0]
    names, key = rows.slave.names, transform.key()
    contents = images.written(names, rows.taken(rows.after), plain=unprotected)
    kept = ~same[np.flatnonzero(stays)]
    # The old image of an UPDATE has the key and the changed columns; that of a DELETE the complete row.
    only: list[pa.Array | None] = []
    for name, flags in zip(names, differs, strict=True):
        named = np.ones(len(updated), dtype=bool)
        if name not in key:
            named[updated] = flags[kept]
        only.append(None if named.all() else pa.array(named))
    old = images.written(names, rows.taken(rows.before), only, unprotected)
    result = items.take(pa.array(rows.change))
    actions = np.where(rows.stays, "UPDATE", np.where(has_after, "INSERT", "DELETE"))
    columns = {
        "action": pa.array(actions, TEXT),
        "content": _in_place(contents, has_after),
        "oldcontent": pc.if_else(pa.array(without_old[left]), pa.scalar(None, TEXT), _in_place(old, rows.before >= 0)),
        "guid": _guids(result, transform, rows),
    }
    for label, values in columns.items():
        result = result.set_column(result.column_names.index(label), label, values)
    return result


def _differences(rows: Rows, before: Places, after: Places) -> list[Flags]:
    """For each column: which of the rows that stay differ in it."""
    differences = []
    for column in rows.columns:
        one, other = _taken(column, before), _taken(column, after)
        equal = pc.fill_null(pc.equal(one, other), pa.scalar(False))
        neither = pc.and_(pc.is_null(one), pc.is_null(other))
        differences.append(~np.asarray(pc.or_(equal, neither)))
    return differences


def _guids(items: pa.Table, transform: TableTransform, rows: _RowsOfChanges) -> pa.Array:
    """The keys as texts. An UPDATE of the key has none, but gets one where it becomes an INSERT or a DELETE."""
    guids = one_array(items["guid"])
    moved = np.asarray(pc.is_null(guids)) & rows.stays
    other = ~moved if transform.extra_key else ~rows.stays & np.asarray(pc.is_null(guids))
    if not other.any():
        return guids
    places = np.maximum(rows.before, rows.after)[other]
    columns = [
        pc.ascii_rtrim(column, " ") if name in transform.padded else column
        for name, column in zip(rows.slave.names, rows.slave.columns, strict=True)
    ]
    key = [columns[rows.slave.names.index(name)].take(pa.array(places)) for name in transform.key()]
    return pc.replace_with_mask(guids, pa.array(other), key_texts(key))


def _taken(column: pa.Array, places: Places) -> pa.Array:
    if len(places) and int(places[-1]) - int(places[0]) == len(places) - 1 and (np.diff(places) == 1).all():
        return column.slice(int(places[0]), len(places))  # the usual case, which copies nothing
    return column.take(pa.array(places))


def _in_place(texts: pa.Array, filled: Flags) -> pa.Array:
    """The `texts` in the places that are `filled`, NULL in the others."""
    places = np.cumsum(filled) - 1
    return texts.take(pa.array(places, pa.int64(), mask=~filled))
