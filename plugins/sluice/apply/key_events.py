"""The changes of one table in a window as events: a key appears, changes its row, or disappears.

An item is one event of its key. An UPDATE that changes the key is two: the old key disappears and the new key appears.
While blocks are loading, each of the two is kept or dropped on its own.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluice.database.errors import TableFailure
from sluice.database.items import key_texts, one_array
from sluice.database.row_images import MixedShapes, RowImageCodec
from sluice.errors import Terminal
from sluice.model.guid import key_text, key_values
from sluice.model.names import TableName

TEXT = pa.large_string()
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]


class WrongKey(TableFailure):
    """The changes were captured under another key than the table's known one."""

    def __init__(self, table: TableName, key: Sequence[str], guid: str):
        columns = f"({', '.join(key)})" if key else "no columns"
        super().__init__(
            table,
            f"{table}: its key is {columns}, but changes wait that were captured under another one (GUID "
            f"{guid[:80]!r}). The key was changed on the master without a trace in ITEMS. Start an initial update of "
            "this slave.",
        )


@dataclass(frozen=True)
class KeyEvents:
    """The events, in REPL_KEY order.

    `guid`: the key's text (large_string); `item`: the index in `items` of its change; `before` and `after`: whether the
    key exists then; `partner`: the other event of a key change, -1 for none.
    """

    items: pa.Table
    images: RowImageCodec
    key: tuple[str, ...]
    guid: pa.Array
    item: Indices
    before: Flags
    after: Flags
    partner: Indices

    def __len__(self) -> int:
        return len(self.item)

    @property
    def transactions(self) -> pa.ChunkedArray:
        """TRANS_KEY of each event."""
        return self.items.column("trans_key").take(pa.array(self.item))

    @property
    def repl_keys(self) -> pa.ChunkedArray:
        """REPL_KEY of each event."""
        return self.items.column("repl_key").take(pa.array(self.item))

    def is_partial(self, event: int) -> bool:
        """Whether the new image of an event lacks columns."""
        return self.images.is_partial(self.items.column("content")[int(self.item[event])].as_py())

    def key_values(self) -> list[pa.Array]:
        """The keys of the events, as one array of texts for each key column."""
        return split_keys(self.guid, len(self.key))


def events(items: pa.Table, key: Sequence[str], images: RowImageCodec) -> KeyEvents:
    """The events of `items`: row changes of one table under one definition, in REPL_KEY order.

    `items`: columns repl_key, trans_key, schema, table, guid, action, content, oldcontent (which may be null where
    neither key nor old images need it). `key`: the key columns in the master's order; empty for a keyless table.
    `images`: the source's. Raises `not-row-changes`, `WrongKey`, `malformed-content`.
    """
    action = one_array(items.column("action"))
    inserted, deleted = matches(action, "INSERT"), matches(action, "DELETE")
    updated = matches(action, "UPDATE")
    if not (inserted | deleted | updated).all():
        raise Terminal(
            "TRUNCATE and DDL items must cut the stream: they are applied between two batches.", code="not-row-changes"
        )
    count = len(action)
    guid = one_array(items.column("guid"))
    changing = np.flatnonzero(updated & np.asarray(pc.is_null(guid)))
    _check_key(items, guid, changing, key, images)
    if not key:
        no_keys = pa.nulls(count, TEXT)
        return KeyEvents(items, images, (), no_keys, np.arange(count), ~inserted, ~deleted, np.full(count, -1))
    if not len(changing):
        return KeyEvents(items, images, tuple(key), guid, np.arange(count), ~inserted, ~deleted, np.full(count, -1))
    times = np.ones(count, dtype=np.int64)
    times[changing] = 2
    item = np.repeat(np.arange(count), times)
    goes = changing + np.arange(len(changing))  # the event of the old key; that of the new key follows it
    old, new = _changed_keys(items, changing, key, images)
    pool = pa.concat_arrays([guid, old, new])
    source = item.copy()
    source[goes] = count + np.arange(len(changing))
    source[goes + 1] = count + len(changing) + np.arange(len(changing))
    before, after = ~inserted[item], ~deleted[item]
    after[goes] = False
    before[goes + 1] = False
    partner = np.full(len(item), -1, dtype=np.int64)
    partner[goes], partner[goes + 1] = goes + 1, goes
    return KeyEvents(items, images, tuple(key), pool.take(pa.array(source)), item, before, after, partner)


def changed_key_texts(items: pa.Table, key: Sequence[str], images: RowImageCodec) -> set[str]:
    """The old and new key texts of the UPDATEs in `items` that change a key.

    All changes of these keys must be reduced together, so executors leave them to the driver.
    """
    changing = np.flatnonzero(
        matches(one_array(items.column("action")), "UPDATE") & np.asarray(pc.is_null(one_array(items.column("guid"))))
    )
    if not len(changing):
        return set()
    old, new = _changed_keys(items, changing, key, images)
    return {*old.to_pylist(), *new.to_pylist()}


def without(items: pa.Table, guids: Collection[str]) -> pa.Table:
    """`items` without the changes of the keys `guids`, and without UPDATEs that change a key."""
    kept = pc.is_valid(items.column("guid"))
    if guids:
        kept = pc.and_(kept, pc.invert(pc.is_in(items.column("guid"), pa.array(sorted(guids), TEXT))))
    return items.filter(kept)


def kept_items(events: KeyEvents, keep: Flags) -> pa.Table:
    """The items whose events are kept, for a replay.

    Where only one event of a key change is kept, it becomes an INSERT of the new row or a DELETE of the old key.
    """
    kept = np.asarray(keep, dtype=bool)
    items = events.items
    complete = np.zeros(items.num_rows, dtype=bool)
    complete[events.item[kept & (events.partner < 0)]] = True
    pairs = np.flatnonzero((events.partner >= 0) & kept)
    both = pairs[kept[events.partner[pairs]]]
    complete[events.item[both]] = True
    halves = pairs[~kept[events.partner[pairs]]]
    if not len(halves):
        return items.filter(pa.array(complete))
    goes = events.before[halves]
    rows = items.take(pa.array(events.item[halves]))
    nothing = pa.scalar(None, TEXT)
    replaced = {
        "guid": events.guid.take(pa.array(halves)),
        "action": pc.if_else(pa.array(goes), pa.scalar("DELETE", TEXT), pa.scalar("INSERT", TEXT)),
        "content": pc.if_else(pa.array(goes), nothing, one_array(rows.column("content"))),
        "oldcontent": pc.if_else(pa.array(goes), one_array(rows.column("oldcontent")), nothing),
    }
    for label, values in replaced.items():
        rows = rows.set_column(rows.column_names.index(label), label, values)
    merged = pa.concat_tables([items.filter(pa.array(complete)), rows.cast(items.schema)])
    return merged.sort_by("repl_key")


def table_name(items: pa.Table) -> TableName:
    """The table of the first item."""
    if not items.num_rows:
        return TableName("", "")
    return TableName(items.column("schema")[0].as_py(), items.column("table")[0].as_py())


def _check_key(items: pa.Table, guid: pa.Array, changing: Indices, key: Sequence[str], images: RowImageCodec) -> None:
    """Raises `WrongKey` if the GUIDs are not of `key`: reduced by them, rows would be lost.

    Checks the first row, and the first one with an empty GUID.
    """
    empty = pc.index(guid, pa.scalar("", TEXT)).as_py()
    if not key:
        other = pc.index(pc.equal(guid, ""), pa.scalar(False)).as_py()
        if other >= 0 or len(changing):
            raise WrongKey(table_name(items), key, guid[max(other, 0)].as_py() or "NULL")
        return
    first = pc.index(pc.is_valid(guid), pa.scalar(True)).as_py()
    for index in {first, empty} - {-1}:
        item = items.slice(index, 1).to_pylist()[0]
        text = item["content"] if item["content"] is not None else item["oldcontent"]
        if text is None:
            continue
        row = images.row(text)
        if not all(name in row for name in key):
            raise WrongKey(table_name(items), key, item["guid"])
        if not of_key(item["guid"], row, key):
            raise WrongKey(table_name(items), key, item["guid"])


def of_key(guid: str, row: Mapping[str, str | None], key: Sequence[str]) -> bool:
    """Whether `guid` can be the GUID of `row` under `key`. Of a key with several columns, only the form is checked."""
    if len(key) == 1:
        # A GUID lacks the trailing blanks of a bpchar; a row image has them.
        return key_text(row, key).rstrip(" ") == guid.rstrip(" ")
    return _parts(guid, len(key)) is not None


def _parts(guid: str, count: int) -> list[str] | None:
    try:
        return key_values(guid, count)
    except ValueError:
        return None


def _changed_keys(
    items: pa.Table, changing: Indices, key: Sequence[str], images: RowImageCodec
) -> tuple[pa.Array, pa.Array]:
    """The old and the new key texts of the items at `changing`."""
    contents, oldcontents = (rows_at(items.column(name), changing) for name in ("content", "oldcontent"))
    width = tuple(images.row(contents[0].as_py()))
    if not all(name in width for name in key):
        raise WrongKey(table_name(items), key, "NULL")
    try:
        values = images.columns(contents, width)
        new = [values[width.index(name)] for name in key]
        old = images.overlay(new, key, oldcontents)
    except MixedShapes:
        # The images lack different columns; all of them have the key.
        now = [images.row(text) for text in contents.to_pylist()]
        before = [{**row, **images.row(text)} for row, text in zip(now, oldcontents.to_pylist(), strict=True)]
        new, old = ([pa.array([row.get(name) for row in rows], TEXT) for name in key] for rows in (now, before))
    return key_texts(old), key_texts(new)


def split_keys(guids: pa.Array, parts: int) -> list[pa.Array]:
    """The key texts, taken apart into one array for each key column."""
    texts = one_array(guids)
    if parts == 1:
        return [texts]
    rows = [key_values(guid, parts) for guid in texts.to_pylist()]
    return [pa.array([row[number] for row in rows], TEXT) for number in range(parts)]


def matches(action: pa.Array, word: str) -> Flags:
    """For each action whether it is `word`."""
    flags: Flags = np.asarray(pc.equal(action, word))
    return flags


def rows_at(column: pa.Array | pa.ChunkedArray, rows: Indices) -> pa.Array:
    """The values of a (chunked) column at `rows`, as one array. `one_array` would copy all of the column."""
    if not isinstance(column, pa.ChunkedArray):
        return column.take(pa.array(rows))
    if column.num_chunks <= 1:
        return one_array(column).take(pa.array(rows))
    begins = np.cumsum([0, *(len(chunk) for chunk in column.chunks)])
    order = None if (rows[1:] >= rows[:-1]).all() else np.argsort(rows, kind="stable")
    ascending = rows if order is None else rows[order]
    cuts = np.searchsorted(ascending, begins)
    parts = [
        chunk.take(pa.array(ascending[cuts[number] : cuts[number + 1]] - begins[number]))
        for number, chunk in enumerate(column.chunks)
        if cuts[number] < cuts[number + 1]
    ]
    values = pa.concat_arrays(parts) if parts else pa.array([], column.type)
    if order is None:
        return values
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return values.take(pa.array(back))
