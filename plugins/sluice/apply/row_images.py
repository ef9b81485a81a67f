"""Parses the images of rows: their values after a window's changes, and before them.

Two items of the window determine a row: its first change (`begins`) and its last one (`ends`). A few threads parse
pieces of many rows side by side: Arrow's kernels do not hold Python's lock.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply.key_events import TEXT, Indices, KeyEvents, rows_at
from sluice.database.row_images import RowImageCodec

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

    A `b` column is left out where no row's former value differs from its present one. Raises
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


def _each(task: Callable[[int], Images], places: Sequence[int]) -> list[Images]:
    return list(_threads().map(task, places)) if len(places) > 1 else [task(place) for place in places]


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="sluice-images")
