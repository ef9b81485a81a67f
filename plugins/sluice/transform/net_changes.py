"""Transforms the net changes of a table, in one pass of the engine for all rows.

Of each key only the row before the window and the row after it are transformed. Columns that the slave has unchanged,
also under another name, are not copied.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluice.database.net_changes import NetChanges
from sluice.model.change import Action
from sluice.transform.engine import TEXT
from sluice.transform.table_transform import TableTransform

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Image:
    """Rows before or after the window; the master's, once transformed the slave's."""

    action: Action
    """The action that changes them."""
    count: int
    columns: dict[str, pa.ChunkedArray]
    """The columns by name."""
    kept: Flags
    """Which of the rows the slave has."""


def of_slave(net: NetChanges, transform: TableTransform, *, safe: bool, compare: bool) -> NetChanges:
    """Transforms the net changes of one table that has a key; `compare`: the result has the old images.

    `net` must have the old images, including the columns of the key, where `compare` is set or the transformation
    filters; not in safe mode, which deletes every row that the slave must not have. Raises `RowNotTransformed`,
    `TransformationInvalid`.
    """
    if not net.rows:
        return replace(net, columns=(), key=transform.key(), compared=False)
    former = net.compared and not safe
    assert net.key and (former or not compare) and (former or safe or not transform.filters)
    changed = [(Action.UPDATE, net.updates), (Action.UPDATE, net.moves)]
    now = [_after(net, action, table) for action, table in [*changed, (Action.INSERT, net.inserts)]]
    was = [_before(net, action, table, former) for action, table in [*changed, (Action.DELETE, net.deletes)]]
    updated, moved, inserted, updated_was, moved_was, deleted = _transformed([*now, *was], net, transform)
    stays = updated.kept & updated_was.kept
    if former:
        stays &= _differing(updated, updated_was)
    assembled = _Tables(tuple(name for name, _ in transform.sources(net.columns)), transform.key(), compare)
    key = range(1, len(net.key) + 1)
    moved_from = [net.moves.column(f"k{number}") for number in key] if moved.count else []
    deletes = [
        assembled.deletes(
            [net.deletes.column(f"k{number}") for number in key] if deleted.count else [], deleted, deleted.kept
        ),
        assembled.deletes(assembled.key_of(updated), updated_was, updated_was.kept & ~updated.kept),
        assembled.deletes(assembled.key_of(moved) if safe else moved_from, moved_was, moved_was.kept & ~moved.kept),
    ]
    if safe:  # the slave may already have any state within the window
        deletes.append(assembled.deletes(assembled.key_of(inserted), inserted, ~inserted.kept))
    inserts = [
        assembled.inserts(inserted, inserted.kept),
        assembled.inserts(updated, updated.kept & ~updated_was.kept),
        assembled.inserts(moved, moved.kept & ~moved_was.kept),
    ]
    return replace(
        net,
        columns=assembled.names,
        key=assembled.key,
        deletes=_joined(deletes),
        updates=assembled.changes([], updated, updated_was, stays),
        moves=assembled.changes(moved_from, moved, moved_was, moved.kept & moved_was.kept),
        inserts=_joined(inserts),
        compared=compare,
    )


def _after(net: NetChanges, action: Action, table: pa.Table) -> _Image:
    return _Image(action, table.num_rows, _values(net, table, "c"), np.ones(table.num_rows, dtype=bool))


def _before(net: NetChanges, action: Action, table: pa.Table, known: bool) -> _Image:
    """`known`: whether there are old images; without them the result has no columns."""
    columns = _values(net, table, "c") | _values(net, table, "b") if known else {}
    return _Image(action, table.num_rows, columns, np.ones(table.num_rows, dtype=bool))


def _values(net: NetChanges, table: pa.Table, letter: str) -> dict[str, pa.ChunkedArray]:
    """The values in the table's columns with this letter, by name."""
    labels = set(table.column_names) if table.num_rows else ()
    places = ((name, f"{letter}{number}") for number, name in enumerate(net.columns, start=1))
    return {name: table.column(place) for name, place in places if place in labels}


def _transformed(images: Sequence[_Image], net: NetChanges, transform: TableTransform) -> Iterator[_Image]:
    """Transforms the images in one pass."""
    known = [image for image in images if image.columns]
    if not known:
        yield from images
        return
    names = [name for name in net.columns if transform.needs(name)]
    pool = {
        name: pa.chunked_array([chunk for image in known for chunk in image.columns[name].chunks]) for name in names
    }
    actions = pa.concat_arrays([pa.repeat(pa.scalar(str(image.action), TEXT), image.count) for image in known])
    assembled, kept = transform.made(pool, len(actions), actions)
    place = 0
    for image in images:
        if not image.columns:
            yield image
            continue
        columns = {
            name: _slice(assembled[name], place, image.count) if source is None else image.columns[source]
            for name, source in transform.sources(net.columns)
        }
        yield _Image(
            image.action, image.count, columns, image.kept if kept is None else kept[place : place + image.count]
        )
        place += image.count


def _slice(column: pa.Array, place: int, count: int) -> pa.ChunkedArray:
    return pa.chunked_array([column.slice(place, count)])


def _differing(one: _Image, other: _Image) -> Flags:
    """Which rows differ in any column."""
    differing = np.zeros(one.count, dtype=bool)
    for name, column in one.columns.items():
        if not _same(column, other.columns[name]):
            differing |= _unequal(column, other.columns[name])
    return differing


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    return bool(one.equals(other))


def _unequal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Flags:
    differs = pc.fill_null(pc.not_equal(one, other), pa.scalar(True))
    return np.asarray(pc.and_not(differs, pc.and_(pc.is_null(one), pc.is_null(other))))


@dataclass(frozen=True)
class _Tables:
    """Makes the tables of `NetChanges` of the chosen rows."""

    names: tuple[str, ...]
    key: tuple[str, ...]
    compare: bool

    def key_of(self, image: _Image) -> list[pa.ChunkedArray]:
        return [image.columns[name] for name in self.key] if image.count else []

    def inserts(self, image: _Image, chosen: Flags) -> pa.Table:
        return _chosen(self._values("c", image), chosen)

    def deletes(self, key: Sequence[pa.ChunkedArray], image: _Image, chosen: Flags) -> pa.Table:
        """`key`: the keys that the rows have on the slave."""
        columns = _numbered("k", key)
        if self.compare:
            columns |= self._values("b", image)
        return _chosen(columns, chosen)

    def changes(self, key: Sequence[pa.ChunkedArray], now: _Image, was: _Image, chosen: Flags) -> pa.Table:
        columns = _numbered("k", key) | self._values("c", now)
        if self.compare:
            former = self._values("b", was)
            columns |= {
                label: column for label, column in former.items() if not _same(column, columns[f"c{label[1:]}"])
            }
        return _chosen(columns, chosen)

    def _values(self, letter: str, image: _Image) -> dict[str, pa.ChunkedArray]:
        """The columns of an image, named by their numbers; those of old images without the key."""
        return {
            f"{letter}{number}": image.columns[name]
            for number, name in enumerate(self.names, start=1)
            if image.count and (letter == "c" or name not in self.key)
        }


def _numbered(letter: str, columns: Iterable[pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
    return {f"{letter}{number}": column for number, column in enumerate(columns, start=1)}


def _chosen(columns: dict[str, pa.ChunkedArray], chosen: Flags) -> pa.Table:
    if not chosen.any():
        return pa.table({})
    assembled = pa.table(columns)
    return assembled if chosen.all() else assembled.filter(pa.array(chosen))


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    filled = [table for table in tables if table.num_rows]
    return pa.concat_tables(filled) if filled else pa.table({})
