"""Decides how much of a window the next transaction takes, and whether the driver or the executors read it.

A window of up to `max_batch_changes` changes is one slice. Slices of a larger one have at most that many, and end at
a REPL_KEY. Counting changes costs the master nearly as much as reading them. So they are read at once if a sample
says that they will fit: there are never more changes than REPL_KEYs.

While Spark does not answer, the driver takes slices that fit into its memory; so it does while a session is opened
for the first large window.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply.pair_sessions import PairSessions
from sluice.database.changes import Survey, TooManyBytes
from sluice.database.items import marked_unordered, unordered
from sluice.model.change import DEFINITIONS
from sluice.model.window import Window

SAMPLE = 10_000
"""Changes at a window's beginning by which the others are estimated; a window of so few is read without a survey."""
DRIVER_BYTES = 384 << 20
"""Bytes of contents up to which a slice is reduced in the driver."""
LOADING_SLICE, LOADING_BYTES = 200_000, 256 << 20
"""Changes, and bytes of contents, of a slice while blocks are loading: the driver decides on each change."""
BATCH_BYTES = 1 << 30
"""Bytes of contents in any slice, beside `max_batch_changes`: the limit for the memory of the executors."""


@dataclass(frozen=True)
class Slice:
    """The next changes of a window, or a survey of them where the executors read them."""

    items: pa.Table
    end: int | None = None
    """REPL_KEY of the slice's end; None where the window ends with it."""
    survey: Survey | None = None

    @property
    def unordered(self) -> bool:
        """Whether changes may be in another order than they happened."""
        return self.survey.unordered if self.survey is not None else unordered(self.items)

    @property
    def first_definition(self) -> int | None:
        """REPL_KEY of the first change of a definition, if there is one."""
        if self.survey is not None:
            return next((cut.repl_key for cut in self.survey.cuts if cut.action in DEFINITIONS), None)
        definitions = pc.is_in(self.items.column("action"), pa.array(sorted(DEFINITIONS), pa.large_string()))
        first = pc.min(self.items.column("repl_key").filter(definitions)).as_py()
        return None if first is None else int(first)


class WindowSlicer:
    """Cuts one pair's windows into slices. `ready`: whether executors are available, called when they are needed."""

    def __init__(self, sessions: PairSessions, ready: Callable[[], bool]):
        self.sessions = sessions
        self._ready = ready
        self._options = sessions.pair.replication.apply
        self._growth = 1
        """The factor by which the next slice is larger than usual."""

    def grow(self) -> None:
        """Doubles the next slice, because one ended between rows that need each other."""
        self._growth *= 2

    def committed(self) -> None:
        """Returns to the usual size of slices."""
        self._growth = 1

    def next(self, window: Window, in_driver: bool, images: bool) -> Slice:
        """The next slice of the rest of `window`. `in_driver`: not for executors; `images`: with all old images."""
        reader = self.sessions.reader
        floor = max(window.above, window.previous.floor(window.target))
        keys = min(window.target.high, window.up_to or window.target.high) - floor
        stages = not in_driver and keys > self._options.stage_above and self._ready()
        most = LOADING_SLICE if in_driver else self._most(stages)
        if keys <= min(SAMPLE, most):
            with suppress(TooManyBytes):
                return Slice(reader.items(window, images=images, max_bytes=2 * DRIVER_BYTES))
        survey = reader.survey(window, limit=min(SAMPLE, most), max_bytes=DRIVER_BYTES)
        if survey.more and min(keys, most) * survey.bytes <= DRIVER_BYTES * survey.changes:
            if keys <= most:
                with suppress(TooManyBytes):
                    return Slice(reader.items(window, images=images, max_bytes=2 * DRIVER_BYTES))
            elif not in_driver and window.up_to is None and survey.last is not None and survey.last <= floor + most:
                uncounted = self._uncounted(window, floor, images) if most == self._options.max_batch_changes else None
                if uncounted is not None:
                    return uncounted
        if survey.more:
            # However few the changes are, their contents may be too many for this process.
            stages = stages or (not in_driver and self._ready())
            limit, size = (most, LOADING_BYTES) if in_driver else self._size(stages)
            survey = reader.survey(window, limit=limit, max_bytes=size)
            if stages and (survey.changes > most or survey.bytes > DRIVER_BYTES):
                return Slice(None, survey.last if survey.more else None, survey)
        end = survey.last if survey.more else None
        return Slice(reader.items(window.between(window.above, end or window.up_to), images=images), end)

    def _uncounted(self, window: Window, floor: int, images: bool) -> Slice | None:
        """A slice of as many REPL_KEYs as it may have changes, which spares counting; None where that does not fit."""
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
        # The rest fits too, so the window is applied as a whole.
        more = reader.items(window.between(end), images=images)
        both = pa.concat_tables([items, more])
        return Slice(marked_unordered(both) if unordered(items) or unordered(more) else both)

    def _most(self, stages: bool) -> int:
        """Changes up to which the driver reads a slice itself."""
        most = self._options.max_batch_changes
        return min(self._options.stage_above, most) if stages else most

    def _size(self, stages: bool) -> tuple[int, int]:
        """The most changes and bytes of contents of a slice."""
        size = BATCH_BYTES if stages else DRIVER_BYTES
        return self._options.max_batch_changes * self._growth, size * self._growth
