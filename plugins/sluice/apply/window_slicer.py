"""How much of a window is taken at once, and who holds it: this process, or the executors.

A window of up to `max_batch_changes` changes is one slice. Of a larger one each slice has that many at most, and
ends at a REPL_KEY. Counting changes costs the master nearly as much as reading them, so they are read first wherever
a sample says that they will fit: there are never more changes than REPL_KEYs.

While Spark does not answer, this process takes what it can hold itself, slice by slice.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply.pair_sessions import PairSessions
from sluice.database.changes import Survey, TooManyBytes
from sluice.model.change import DEFINITIONS
from sluice.model.window import Window

SAMPLE = 10_000
"""Changes at a window's beginning that say how large the others may be; a window of as many is read without a look."""
DRIVER_BYTES = 384 << 20
"""Contents up to which a slice is reduced in the driver."""
LOADING_SLICE, LOADING_BYTES = 200_000, 256 << 20
"""Changes and contents of a slice while blocks are loading: all of them are decided in the driver."""
BATCH_BYTES = 1 << 30
"""Bytes of contents in one slice, beside `max_batch_changes`: what bounds the memory of the executors."""


@dataclass(frozen=True)
class Slice:
    """What is next of a window: the changes, or a survey of them where they are too many for this process."""

    items: pa.Table
    end: int | None = None
    """REPL_KEY where the slice ends when more of the window follows."""
    survey: Survey | None = None

    @property
    def first_definition(self) -> int | None:
        """REPL_KEY of the first change of a definition, if there is one."""
        if self.survey is not None:
            return next((cut.repl_key for cut in self.survey.cuts if cut.action in DEFINITIONS), None)
        wanted = pc.is_in(self.items.column("action"), pa.array(sorted(DEFINITIONS), pa.large_string()))
        found = pc.min(self.items.column("repl_key").filter(wanted)).as_py()
        return None if found is None else int(found)


class WindowSlicer:
    """The slices of one pair's windows. `ready` says whether executors take what is given to them now."""

    def __init__(self, sessions: PairSessions, ready: Callable[[], bool]):
        self.sessions = sessions
        self._ready = ready
        self._options = sessions.pair.replication.apply
        self._growth = 1
        """How much larger than usual the next slice is."""

    def grow(self) -> None:
        """A slice ended between rows that need each other: the next try is twice as large."""
        self._growth *= 2

    def committed(self) -> None:
        """The next slice may be of the usual size."""
        self._growth = 1

    def next(self, window: Window, loading: bool, images: bool) -> Slice:
        """The next slice of what is left of `window`. `images`: read with all old images."""
        reader = self.sessions.reader
        stages = not loading and self._ready()
        most = LOADING_SLICE if loading else self._most(stages)
        floor = max(window.above, window.previous.floor(window.target))
        keys = min(window.target.high, window.up_to or window.target.high) - floor
        if keys <= min(SAMPLE, most):
            with suppress(TooManyBytes):
                return Slice(reader.items(window, images=images, max_bytes=2 * DRIVER_BYTES))
        survey = reader.survey(window, limit=min(SAMPLE, most), max_bytes=DRIVER_BYTES)
        if survey.more and min(keys, most) * survey.bytes <= DRIVER_BYTES * survey.changes:
            if keys <= most:
                with suppress(TooManyBytes):
                    return Slice(reader.items(window, images=images, max_bytes=2 * DRIVER_BYTES))
            elif not loading and window.up_to is None and survey.last is not None and survey.last <= floor + most:
                found = self._uncounted(window, floor, images) if most == self._options.max_batch_changes else None
                if found is not None:
                    return found
        if survey.more:
            limit, size = (most, LOADING_BYTES) if loading else self._size(stages)
            survey = reader.survey(window, limit=limit, max_bytes=size)
            if stages and (survey.changes > most or survey.bytes > DRIVER_BYTES):
                return Slice(None, survey.last if survey.more else None, survey)
        end = survey.last if survey.more else None
        return Slice(reader.items(window.between(window.above, end or window.up_to), images=images), end)

    def _uncounted(self, window: Window, floor: int, images: bool) -> Slice | None:
        """A slice of as many REPL_KEYs as it may have changes, where the window has too many for one; None when that
        is not the way to cut it."""
        reader, most = self.sessions.reader, self._options.max_batch_changes
        if self._growth > 1:
            return None
        end = floor + most
        try:
            items = reader.items(window.between(floor, end), max_bytes=2 * DRIVER_BYTES, images=images)
        except TooManyBytes:
            return None
        room = most - items.num_rows
        rest = reader.survey(window.between(end), limit=room + 1)
        if rest.changes > room:
            return Slice(items, end)
        if items.nbytes + rest.bytes > 2 * DRIVER_BYTES:
            return None
        # Together they are no more than one slice may have: then the window is applied as a whole.
        return Slice(pa.concat_tables([items, reader.items(window.between(end), images=images)]))

    def _most(self, stages: bool) -> int:
        """Changes up to which this process holds a slice itself."""
        most = self._options.max_batch_changes
        return min(self._options.stage_above, most) if stages else most

    def _size(self, stages: bool) -> tuple[int, int]:
        """Changes and bytes of contents of a slice."""
        size = BATCH_BYTES if stages else DRIVER_BYTES
        return self._options.max_batch_changes * self._growth, size * self._growth
