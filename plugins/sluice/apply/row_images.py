"""What rows hold after a window's changes, and what they held before it.

A row is told by two places in the window's items: its first change (`begins`) and its last one
(`ends`). Pieces of many rows are taken apart by a few threads at once: Arrow's kernels do not hold
Python's lock.
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
"""Rows that one thread takes apart at a time."""
_THREADS = min(4, os.cpu_count() or 1)

Images = dict[str, pa.Array | pa.ChunkedArray]
"""Columns by label: `c1`… the values after the last change, `b1`… those before the first (see `NetChanges`)."""


@dataclass(frozen=True)
class Wanted:
    """Which columns of rows."""

    width: Sequence[str]
    """Names of all columns."""
    skip: Sequence[str]
    """Those whose former values are of no interest."""
    former: bool
    """Whether the `b` columns."""
    now: bool = True
    """Whether the `c` columns."""


def images(found: KeyEvents, begins: Indices, ends: Indices, wanted: Wanted) -> Images:
    """The columns that are wanted.

    A `b` column is left out where no row's former value differs from its present one. Raises
    `MixedShapes`, `MalformedContent`.
    """

    def piece(at: int) -> Images:
        mine = slice(at, at + PIECE)
        return _piece(found.items, found.images, begins[mine], ends[mine], wanted)

    if not wanted.now and not wanted.former:
        return {}
    pieces = _each(piece, range(0, len(ends), PIECE)) if len(ends) else [piece(0)]
    if len(pieces) == 1:
        return pieces[0]
    labels = [f"{letter}{number}" for letter in "cb" for number in range(1, len(wanted.width) + 1)]
    return {
        label: pa.chunked_array([each[label] if label in each else each[f"c{label[1:]}"] for each in pieces], TEXT)
        for label in labels
        if any(label in each for each in pieces)
    }


def _piece(items: pa.Table, codec: RowImageCodec, begins: Indices, ends: Indices, wanted: Wanted) -> Images:
    width = wanted.width
    values = codec.columns(rows_at(items.column("content"), ends), width) if wanted.now else None
    result = {f"c{number}": value for number, value in enumerate(values or (), start=1)}
    if not wanted.former or not len(begins):
        return result
    content, old = (rows_at(items.column(label), begins) for label in ("content", "oldcontent"))
    # A DELETE has no content: its OLDCONTENT is whole. Only an UPDATE's is laid over its content.
    bare = np.asarray(pc.is_null(content))
    laid = pc.if_else(pa.array(bare), pa.scalar("", content.type), old) if bare.any() else old
    again = np.ones(len(begins), dtype=bool) if values is None else begins != ends
    base = list(values or ())
    if again.any():
        # Contents that were not taken apart yet: those of rows that changed several times.
        other = codec.columns(pc.coalesce(content, old).filter(pa.array(again)), width)
        order = np.arange(len(begins))
        order[again] = len(begins) + np.arange(int(again.sum()))
        base = (
            other
            if values is None
            else [pa.concat_arrays([one, two]).take(pa.array(order)) for one, two in zip(values, other, strict=True)]
        )
    before = codec.overlay(base, width, laid, skip=wanted.skip) if not bare.all() else base
    for number, (name, was) in enumerate(zip(width, before, strict=True), start=1):
        if name not in wanted.skip and (values is None or not _alike(was, values[number - 1])):
            result[f"b{number}"] = was
    return result


def _alike(one: pa.Array, other: pa.Array) -> bool:
    return one is other or bool(one.equals(other))


def _each(task: Callable[[int], Images], places: Sequence[int]) -> list[Images]:
    return list(_threads().map(task, places)) if len(places) > 1 else [task(place) for place in places]


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="sluice-images")
