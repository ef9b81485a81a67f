"""The changes of a window as rows of Arrow: what happened, and the row before and after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sluice.database.column_types import LogicalColumn
from sluice.database.row_images import MixedShapes, RowImageCodec
from sluice.errors import Terminal
from sluice.feed import arrow_columns
from sluice.model.change import Action
from sluice.model.names import TableName

HEAD = pa.schema(
    [
        ("repl_key", pa.int64()),
        ("transaction", pa.int64()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("action", pa.string()),
        ("position", pa.string()),
    ]
)
"""The columns of each change: its number, in whose order a row's changes are; its transaction; its table; its action;
and the end of its window."""
TEXTS = pa.map_(pa.string(), pa.string())
"""A row of any table: its columns' texts by name."""
_BATCH = 16_384


@dataclass(frozen=True)
class ChangeSchema:
    """The schema of changes for a reader. Without `columns`: changes of all tables, their rows as maps of texts."""

    table: TableName | None
    columns: tuple[LogicalColumn, ...]
    texts: tuple[str, ...] = ()
    """Columns that are read as texts, `*` for all."""

    @property
    def arrow(self) -> pa.Schema:
        row = TEXTS if self.table is None else pa.struct(list(arrow_columns.schema(self.columns, self.texts)))
        return pa.schema([*HEAD, ("before", row), ("after", row)])


def batches(items: pa.Table, wanted: ChangeSchema, images: RowImageCodec, position: str) -> list[pa.RecordBatch]:
    """The changes of `items` (`sluice.database.items`, read with old images) in their order.

    Raises `unknown-column`, `value-does-not-fit`, `malformed-content`.
    """
    if wanted.table is not None:
        of_table = pc.and_(pc.equal(items["schema"], wanted.table.schema), pc.equal(items["table"], wanted.table.name))
        items = items.filter(of_table)
    made = []
    for at in range(0, items.num_rows, _BATCH):
        made.append(_batch(items.slice(at, _BATCH).combine_chunks(), wanted, images, position))
    return made


def _batch(items: pa.Table, wanted: ChangeSchema, images: RowImageCodec, position: str) -> pa.RecordBatch:
    head = [
        _whole(items["repl_key"]),
        _whole(items["trans_key"]),
        *(_whole(items[name]).cast(pa.string()) for name in ("schema", "table", "action")),
        pa.array([position] * items.num_rows, pa.string()),
    ]
    actions = items["action"].to_pylist()
    before, after = _images(items, actions, wanted, images)
    return pa.RecordBatch.from_arrays([*head, before, after], schema=wanted.arrow)


def _images(
    items: pa.Table, actions: Sequence[str], wanted: ChangeSchema, images: RowImageCodec
) -> tuple[pa.Array, pa.Array]:
    new = [place for place, action in enumerate(actions) if action in (Action.INSERT, Action.UPDATE)]
    updated = [place for place, action in enumerate(actions) if action == Action.UPDATE]
    deleted = [place for place, action in enumerate(actions) if action == Action.DELETE]
    if wanted.table is None:
        contents, olds = items["content"].to_pylist(), items["oldcontent"].to_pylist()
        rows = {place: images.row(contents[place]) for place in new}
        former = {place: {**rows[place], **images.row(olds[place] or "")} for place in updated}
        former |= {place: images.row(olds[place]) for place in deleted}
        return _maps(former, items.num_rows), _maps(rows, items.num_rows)
    content, oldcontent = _whole(items["content"]), _whole(items["oldcontent"])
    after = _parsed(_at(content, new), images)
    if updated:
        place_of = {place: number for number, place in enumerate(new)}
        current = {name: _at(column, [place_of[place] for place in updated]) for name, column in after.items()}
        former_texts = _overlaid(current, _at(oldcontent, updated), images)
    else:
        former_texts = {}
    removed = _parsed(_at(oldcontent, deleted), images)
    return (
        _structs([(updated, former_texts), (deleted, removed)], items.num_rows, wanted),
        _structs([(new, after)], items.num_rows, wanted),
    )


def _parsed(contents: pa.Array, images: RowImageCodec) -> dict[str, pa.Array]:
    """The texts of each column that any of the rows has; None where a row lacks it."""
    if not len(contents):
        return {}
    names = list(images.row(contents[0].as_py()))
    try:
        return dict(zip(names, images.columns(contents, names), strict=True))
    except MixedShapes:
        return _by_name([images.row(content) for content in contents.to_pylist()])


def _overlaid(current: Mapping[str, pa.Array], olds: pa.Array, images: RowImageCodec) -> dict[str, pa.Array]:
    names = list(current)
    try:
        return dict(zip(names, images.overlay(list(current.values()), names, olds), strict=True))
    except MixedShapes:
        rows = zip(*(column.to_pylist() for column in current.values()), strict=True)
        pairs = zip(rows, olds.to_pylist(), strict=True)
        return _by_name([{**dict(zip(names, row, strict=True)), **images.row(old or "")} for row, old in pairs])


def _by_name(rows: Sequence[Mapping[str, str | None]]) -> dict[str, pa.Array]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: pa.array([row.get(name) for row in rows], pa.large_string()) for name in names}


def _structs(
    parts: Sequence[tuple[Sequence[int], Mapping[str, pa.Array]]], rows: int, wanted: ChangeSchema
) -> pa.Array:
    """One struct for each change, null if none of `parts` has its place."""
    assert wanted.table is not None
    schema = arrow_columns.schema(wanted.columns, wanted.texts)
    known = set(schema.names)
    for _, texts in parts:
        if strange := [name for name in texts if name not in known]:
            raise Terminal(
                f"{wanted.table} has a column {strange[0]!r} that it had not when the query began. Start the query "
                "again: it goes on where it was, with the new column.",
                code="unknown-column",
            )
    # Where each change's values are among those of all parts, one after the other.
    source: list[int | None] = [None] * rows
    at = 0
    for places, _ in parts:
        for place in places:
            source[place], at = at, at + 1
    taken = pa.array(source, pa.int64())
    children = []
    for column, field in zip(wanted.columns, schema, strict=True):
        pieces = [
            texts[column.name] if column.name in texts else pa.nulls(len(places), pa.large_string())
            for places, texts in parts
        ]
        values = arrow_columns.values(pa.concat_arrays(pieces), column, field.type)
        children.append(values.take(taken))
    return pa.StructArray.from_arrays(children, fields=list(schema), mask=taken.is_null())


def _maps(rows: Mapping[int, Mapping[str, str | None]], count: int) -> pa.Array:
    return pa.array([list(rows[place].items()) if place in rows else None for place in range(count)], TEXTS)


def _at(array: pa.Array, places: Sequence[int]) -> pa.Array:
    return array.take(pa.array(places, pa.int64()))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
