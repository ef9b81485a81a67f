"""The rows of a table as of one position, in partitions that are read side by side, whenever and how often.

No transaction lasts from one partition to the next. Each is read in its own snapshot, and what came after the
position is taken back by the changes that wait in the queue, seen by the same snapshot.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sluice.database import csv_rows, registry
from sluice.database.changes import WaitingChange
from sluice.database.column_types import LogicalColumn
from sluice.database.row_images import RowImageCodec
from sluice.database.rows import RowFormat
from sluice.database.session import Session
from sluice.errors import Terminal, Transient
from sluice.feed import arrow_columns
from sluice.feed.master import Master
from sluice.model.blocks import Key
from sluice.model.change import ROW_ACTIONS, Action
from sluice.model.names import TableName
from sluice.model.position import Position, Window
from sluice.model.purging import lost
from sluice.model.row_condition import RowCondition
from sluice.model.shape import TableShape

# Rows as of a position, computed from rows that were read later and the changes in between. No I/O.
#
# Each change is undone: its new row does not exist yet, its old row still does. Versions of rows are counted,
# without keys, so that rows that exchanged their keys, and tables without a key, need no special case.

Version = tuple[str | None, ...]
"""The texts of a row, in the order of the table's columns."""


def rows_not_reconstructible(table: TableName, action: str) -> Transient:
    """A change that does not say which rows it removed lies between the position and the read."""
    return Transient(
        f"{table} was changed by {action} after the requested position, so its earlier rows cannot be reconstructed. "
        "Read it at the current position; a feed that nobody has begun to read can be dropped and begun again.",
        code="rows-not-reconstructible",
    )


@dataclass(frozen=True)
class TakenBack:
    """The corrections of the rows that were read."""

    gone: Counter[Version]
    """Versions that came later, with how often each is to be left out."""
    back: tuple[Version, ...]
    """Versions that were there."""


def taken_back(
    changes: Iterable[WaitingChange], names: Sequence[str], images: RowImageCodec, table: TableName
) -> TakenBack:
    """The corrections that undo `changes`, all of `table` since the position, in their order. Raises
    `rows-not-reconstructible`."""
    later: Counter[Version] = Counter()
    back: list[Version] = []
    for action, content, oldcontent in changes:
        if action not in ROW_ACTIONS or any(text and images.is_partial(text) for text in (content, oldcontent)):
            raise rows_not_reconstructible(table, action)
        new = images.row(content) if content is not None and action != Action.DELETE else {}
        if action != Action.INSERT:
            old = {**new, **images.row(oldcontent or "")}
            version = _version(old, names, table)
            if later[version]:
                later[version] -= 1
            else:
                back.append(version)
        if action != Action.DELETE:
            later[_version(new, names, table)] += 1
    return TakenBack(+later, tuple(back))


def _version(row: dict[str, str | None], names: Sequence[str], table: TableName) -> Version:
    try:
        return tuple(row[name] for name in names)
    except KeyError:
        raise rows_not_reconstructible(table, Action.ALTER) from None


MOST_CHANGES = 1_000_000
"""The highest number of changes of a table since the position that are undone; with more, another position is better.
"""


def feed_changes_purged(what: str) -> Terminal:
    """Changes that are needed are not in the queue any more."""
    return Terminal(
        f"{what}: changes since that position were purged, because nobody held them. Name a feed, option "
        "feed: it holds the purge from its first read on. A feed that lost its place is dropped and begun again: "
        "docs/feeds.md.",
        code="feed-changes-purged",
    )


@dataclass(frozen=True)
class TableRead:
    """A read of a table: planned once, then sent to where its partitions are read."""

    master: Master
    shape: TableShape
    columns: tuple[LogicalColumn, ...]
    """The replicated ones, all of them."""
    position: str
    """A `Position`, as its text."""
    bounds: tuple[Key, ...]
    """The bounds between partitions."""

    @property
    def partitions(self) -> int:
        return len(self.bounds) + 1

    def read(
        self, number: int, arrow_schema: pa.Schema, conditions: Sequence[RowCondition] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a partition: the columns of `arrow_schema`, in its types. Rows that do not match
        all `conditions` may be left out.

        Raises `feed-changes-purged`, `table-changed-while-read`, `rows-not-reconstructible`, `value-does-not-fit`,
        errors of `sluice.database.errors`.
        """
        bounds = [None, *self.bounds, None]
        lo, hi = bounds[number], bounds[number + 1]
        vendor, names = self.master.vendor, [column.name for column in self.columns]
        by_name = {column.name: column for column in self.columns}
        with (
            self.master.session() as session,
            self.master.queue(session).reading(self.shape) as snapshot,
        ):
            if snapshot.shape != self.shape:
                raise Transient(
                    f"The definition of {self.shape.table} changed while it was read. Run the query again.",
                    code="table-changed-while-read",
                )
            past = self._taken_back(session, number, snapshot.marker)
            # Where versions are left out, all columns say which.
            needed = (
                list(self.shape.replicated) if past.gone else [self.shape.column(name) for name in arrow_schema.names]
            )
            order = vendor.rows.key_order(session, self.shape)
            query = order.select(needed, lo, hi, canonical=True, where=conditions)
            rows = vendor.rows.stream(session, query, RowFormat.CSV)
            read = [column.name for column in needed]
            for table in csv_rows.tables(rows, read):
                yield from _typed(_without(table, past, names) if past.gone else table, by_name, arrow_schema)
        yield from _typed(_as_table(past.back, names), by_name, arrow_schema)

    def _taken_back(self, session: Session, number: int, marker: Position) -> TakenBack:
        """The corrections that undo the changes after the position, of this partition only if they bring rows back."""
        master, table = self.master, self.shape.table
        position = registry.parse_position(self.position)
        if lost(position, master.queue(session).purged()):
            raise feed_changes_purged(f"{table} as of {position}")
        names = [column.name for column in self.columns]
        changes = master.queue(session).changes_of(Window(position, marker), table, MOST_CHANGES + 1)
        if len(changes) > MOST_CHANGES:
            raise Terminal(
                f"{table} had more than {MOST_CHANGES:,} changes since {position}. Read it as of a later position.",
                code="too-many-changes",
            )
        past = taken_back(changes, names, master.vendor.images, table)
        if not self.bounds or not past.back:
            return past
        indices = [names.index(column.name) for column in self.shape.key]
        keys: list[Key] = [tuple(version[index] or "" for index in indices) for version in past.back]
        where = master.queue(session).locate(self.shape, self.bounds, keys)
        versions = tuple(version for version, index in zip(past.back, where, strict=True) if index == number)
        return TakenBack(past.gone, versions)


def plan(master: Master, session: Session, table: TableName, position: Position, partition_rows: int) -> TableRead:
    """Divides a table into partitions of about so many rows. A table without a key is one. Raises
    `table-not-replicated`.
    """
    shape = master.shape(session, table)
    bounds: list[Key] = []
    if not shape.keyless:
        order = master.vendor.rows.key_order(session, shape)
        at: Key | None = None
        while (at := order.next_bound(session, at, None, partition_rows)) is not None:
            bounds.append(at)
    return TableRead(master, shape, master.columns(session, shape), position.text(), tuple(bounds))


def _without(table: pa.Table, past: TakenBack, names: Sequence[str]) -> pa.Table:
    """The rows but for those versions that came later, each of which is left out once."""
    if not table.num_rows:
        return table
    # What can be among them, by one column; then row by row.
    first = pa.array({version[0] for version in past.gone}, pa.large_string())
    suspects = pc.is_in(table.column(names[0]), first, skip_nulls=False)
    indices = pc.indices_nonzero(suspects).to_pylist()
    if not indices:
        return table
    some = table.take(pa.array(indices, pa.int64()))
    out = set()
    versions = zip(*(some.column(name).to_pylist() for name in names), strict=True)
    for place, version in zip(indices, versions, strict=True):
        if past.gone[version] > 0:
            past.gone[version] -= 1
            out.add(place)
    return table.filter(pa.array([index not in out for index in range(table.num_rows)])) if out else table


def _as_table(versions: Sequence[Version], names: Sequence[str]) -> pa.Table:
    columns = [pa.array([version[index] for version in versions], pa.large_string()) for index in range(len(names))]
    return pa.table(columns, names=list(names))


def _typed(table: pa.Table, columns: dict[str, LogicalColumn], arrow_schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches(max_chunksize=65_536):
        arrays = [
            arrow_columns.values(batch.column(field.name), columns[field.name], field.type) for field in arrow_schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=arrow_schema)
