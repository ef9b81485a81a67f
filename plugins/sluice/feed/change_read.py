"""The changes between two positions, in partitions of whole ranges of REPL_KEY."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from sluice.database import registry
from sluice.database.changes import LARGEST_CHANGE, ChangeTooLarge
from sluice.database.column_types import LogicalColumn
from sluice.database.items import one_array, oversized
from sluice.database.row_images import MixedShapes, RowImageCodec
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.feed import arrow_columns
from sluice.feed.master import Master
from sluice.feed.table_rows import feed_changes_purged
from sluice.model.change import Action
from sluice.model.feed import FeedPosition
from sluice.model.names import TableName
from sluice.model.position import Position, Window
from sluice.model.purging import lost

# The changes of a window as rows of Arrow: what happened, and the row before and after it.

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


def batches(items: pa.Table, change_schema: ChangeSchema, images: RowImageCodec, position: str) -> list[pa.RecordBatch]:
    """The changes of `items` (`sluice.database.items`, read with old images) in their order.

    Raises `unknown-column`, `value-does-not-fit`, `malformed-content`.
    """
    if change_schema.table is not None:
        of_table = pc.and_(
            pc.equal(items["schema"], change_schema.table.schema), pc.equal(items["table"], change_schema.table.name)
        )
        items = items.filter(of_table)
    batches_of_items = []
    for at in range(0, items.num_rows, _BATCH):
        batches_of_items.append(_batch(items.slice(at, _BATCH).combine_chunks(), change_schema, images, position))
    return batches_of_items


def _batch(items: pa.Table, change_schema: ChangeSchema, images: RowImageCodec, position: str) -> pa.RecordBatch:
    head = [
        one_array(items["repl_key"]),
        one_array(items["trans_key"]),
        *(one_array(items[name]).cast(pa.string()) for name in ("schema", "table", "action")),
        pa.array([position] * items.num_rows, pa.string()),
    ]
    actions = items["action"].to_pylist()
    before, after = _images(items, actions, change_schema, images)
    return pa.RecordBatch.from_arrays([*head, before, after], schema=change_schema.arrow)


def _images(
    items: pa.Table, actions: Sequence[str], change_schema: ChangeSchema, images: RowImageCodec
) -> tuple[pa.Array, pa.Array]:
    new = [index for index, action in enumerate(actions) if action in (Action.INSERT, Action.UPDATE)]
    updated = [index for index, action in enumerate(actions) if action == Action.UPDATE]
    deleted = [index for index, action in enumerate(actions) if action == Action.DELETE]
    if change_schema.table is None:
        contents, olds = items["content"].to_pylist(), items["oldcontent"].to_pylist()
        rows = {index: images.row(contents[index]) for index in new}
        former = {index: {**rows[index], **images.row(olds[index] or "")} for index in updated}
        former |= {index: images.row(olds[index]) for index in deleted}
        return _maps(former, items.num_rows), _maps(rows, items.num_rows)
    content, oldcontent = one_array(items["content"]), one_array(items["oldcontent"])
    after = _parsed(_at(content, new), images)
    if updated:
        place_of = {index: number for number, index in enumerate(new)}
        current = {name: _at(column, [place_of[index] for index in updated]) for name, column in after.items()}
        former_texts = _overlaid(current, _at(oldcontent, updated), images)
    else:
        former_texts = {}
    removed = _parsed(_at(oldcontent, deleted), images)
    return (
        _structs([(updated, former_texts), (deleted, removed)], items.num_rows, change_schema),
        _structs([(new, after)], items.num_rows, change_schema),
    )


def _parsed(contents: pa.Array, images: RowImageCodec) -> dict[str, pa.Array]:
    """The texts of each column that any of the rows has; None if a row lacks it."""
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
    parts: Sequence[tuple[Sequence[int], Mapping[str, pa.Array]]], rows: int, change_schema: ChangeSchema
) -> pa.Array:
    """One struct for each change, null if none of `parts` has its place."""
    assert change_schema.table is not None
    schema = arrow_columns.schema(change_schema.columns, change_schema.texts)
    names = set(schema.names)
    for _, texts in parts:
        if strange := [name for name in texts if name not in names]:
            raise Terminal(
                f"{change_schema.table} has a column {strange[0]!r} that it had not when the query began. Start the "
                "query again: it continues there, with the new column.",
                code="unknown-column",
            )
    # Where each change's values are among those of all parts, one after the other.
    source: list[int | None] = [None] * rows
    at = 0
    for indices, _ in parts:
        for index in indices:
            source[index], at = at, at + 1
    taken = pa.array(source, pa.int64())
    children = []
    for column, field in zip(change_schema.columns, schema, strict=True):
        pieces = [
            texts[column.name] if column.name in texts else pa.nulls(len(indices), pa.large_string())
            for indices, texts in parts
        ]
        values = arrow_columns.values(pa.concat_arrays(pieces), column, field.type)
        children.append(values.take(taken))
    return pa.StructArray.from_arrays(children, fields=list(schema), mask=taken.is_null())


def _maps(rows: Mapping[int, Mapping[str, str | None]], count: int) -> pa.Array:
    return pa.array([list(rows[index].items()) if index in rows else None for index in range(count)], TEXTS)


def _at(array: pa.Array, indices: Sequence[int]) -> pa.Array:
    return array.take(pa.array(indices, pa.int64()))


PARTITION_CHANGES = 100_000
MAX_PARTITIONS = 200
"""Keys of a source may have large gaps: most parts of a long window would be empty, and each costs a session."""
"""About the number of changes of one partition, including those of others, and the most that are read at once."""


@dataclass(frozen=True)
class Span:
    """A part of a window, as sent to an executor."""

    begin: str
    end: str
    """Positions, as their texts."""
    above: int
    up_to: int


@dataclass(frozen=True)
class ChangeRead:
    """A read of changes; sent to where partitions are read."""

    master: Master
    schema: ChangeSchema

    def read(self, span: Span) -> Iterator[pa.RecordBatch]:
        """The changes of a part, in REPL_KEY order. Raises `feed-changes-purged`, what `batches` raises."""
        master = self.master
        begin, end = registry.parse_position(span.begin), registry.parse_position(span.end)
        above: int | None = span.above
        with master.reader() as reader:
            while above is not None:
                window = Window(begin, end).between(above, span.up_to)
                above = None
                if span.up_to - window.above > PARTITION_CHANGES:
                    survey = reader.survey(window, limit=PARTITION_CHANGES)
                    if survey.more and survey.last is not None:
                        above = survey.last
                        window = window.between(window.above, above)
                items = reader.items(window, images=True)
                for change in oversized(items):
                    raise ChangeTooLarge(change, LARGEST_CHANGE)
                with master.session() as session:
                    # Asked after the read: what was purged while it continued is among it.
                    expect_held(master, session, begin)
                yield from batches(items, self.schema, master.vendor.images, str(end))


def schema_of(master: Master, session: Session, table: TableName | None, texts: tuple[str, ...]) -> ChangeSchema:
    """Raises `table-not-replicated`, `Terminal` for texts that are no columns."""
    if table is None:
        return ChangeSchema(None, ())
    columns = master.columns(session, master.shape(session, table))
    arrow_columns.schema(columns, texts)  # raises
    return ChangeSchema(table, columns, texts)


def spans(begin: Position, end: Position, keys: int | None = None) -> list[Span]:
    """The window `(begin, end]` in at most `MAX_PARTITIONS` parts of at least `keys` REPL_KEYs; none if it can have no
    change. No I/O."""
    if end.covers_all_of(begin) and begin.covers_all_of(end):
        return []
    low, high = begin.floor(end), end.high
    if low >= high:
        return []
    count = min(MAX_PARTITIONS, -(-(high - low) // (keys or PARTITION_CHANGES * begin.keys_a_change)))
    edges = [low + (high - low) * number // count for number in range(count + 1)]
    texts = begin.text(), end.text()
    return [Span(*texts, above, up_to) for above, up_to in pairwise(edges)]


def begun(master: Master, session: Session, feed: str, table: str) -> Position:
    """The position up to which a feed has read `table`. A new feed begins now: from here on it holds the purge."""
    queue = master.queue(session)
    for read in queue.feeds():
        if (read.feed, read.table) == (feed, table):
            expect_held(master, session, read.position)
            return read.position
    position = queue.take()
    queue.secure(position)
    queue.note_feed(FeedPosition(feed, table, position))
    return position


def expect_held(master: Master, session: Session, begin: Position) -> None:
    """Raises `changes-purged` if changes after `begin` may be deleted, `DataLost` if the master was restored."""
    master.queue(session).expect_continued([begin])
    if lost(begin, master.queue(session).purged()):
        raise feed_changes_purged(f"{master.prefix} from {begin} on")


def expect_ordered(begin: Position, end: Position) -> None:
    """Raises `Terminal` if `end` lies before `begin`."""
    if not end.covers_all_of(begin):
        raise Terminal(
            f"option to: {end} lies before {begin}, at which the read begins. Exchange the two.",
            code="positions-reversed",
        )
