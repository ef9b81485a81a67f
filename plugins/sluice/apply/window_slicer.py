"""Decides how much of a window the next transaction takes, and whether the driver or the executors read it.

A window of up to `max_batch_changes` changes is one slice. Slices of a larger one have at most that many, and end at
a REPL_KEY. Counting changes costs the master nearly as much as reading them. So they are read at once if the window
before, or a sample, says that they will fit: there are never more changes than REPL_KEYs, and mostly far fewer.

While Spark does not answer, the driver takes slices that fit into its memory; so it does while a session is opened
for the first large window.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sluice.apply.pair_sessions import PairSessions
from sluice.database.changes import Oversized, Survey, TooManyBytes
from sluice.database.items import marked, oversized, unordered
from sluice.model.change import DEFINITIONS
from sluice.model.position import Window

SAMPLE = 10_000
"""Changes at a window's beginning by which the others are estimated; a window of so few is read without a survey."""
GUESSED_BYTES = 64 << 20
"""Bytes of contents up to which a window is read because of the one before it."""
DRIVER_BYTES = 384 << 20
"""Bytes of contents up to which a slice is reduced in the driver."""
LOADING_SLICE, LOADING_BYTES = 200_000, 256 << 20
"""Changes, and bytes of contents, of a slice while blocks are loading: the driver decides on each change."""
BATCH_BYTES = 1 << 30
"""Bytes of contents in any slice, beside `max_batch_changes`: the limit for the memory of the executors."""


@dataclass(frozen=True)
class Slice:
    """The next changes of a window, or a survey of them if the executors read them."""

    items: pa.Table
    end: int | None = None
    """REPL_KEY of the slice's end; None if the window ends with it."""
    survey: Survey | None = None

    @property
    def unordered(self) -> bool:
        """Whether changes may be in another order than they happened."""
        return self.survey.unordered if self.survey is not None else unordered(self.items)

    @property
    def oversized(self) -> Sequence[Oversized]:
        """Changes that come without contents."""
        return self.survey.oversized if self.survey is not None else oversized(self.items)

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
        self._keys_a_change: float | None = None
        """REPL_KEYs for each change, in the last slice that was read."""

    def grow(self) -> None:
        """Doubles the next slice, because one ended between rows that need each other."""
        self._growth *= 2

    def committed(self) -> None:
        """Returns to the usual size of slices."""
        self._growth = 1

    def next(self, window: Window, in_driver: bool, images: bool) -> Slice:
        """The next slice of the rest of `window`. `in_driver`: not for executors; `images`: with all old images."""
        floor = max(window.above, window.previous.floor(window.target))
        keys = min(window.target.high, window.up_to or window.target.high) - floor
        taken = self._next(window, floor, keys, in_driver, images)
        if taken.survey is None and taken.items.num_rows:
            self._keys_a_change = max(1.0, (keys if taken.end is None else taken.end - floor) / taken.items.num_rows)
        return taken

    def _next(self, window: Window, floor: int, keys: int, in_driver: bool, images: bool) -> Slice:
        reader = self.sessions.reader
        likely = keys / (self._keys_a_change or window.previous.keys_a_change)
        stages = not in_driver and likely > self._options.stage_above and self._ready()
        most = self._most(stages, in_driver)
        if likely <= min(SAMPLE, most):
            size = 2 * DRIVER_BYTES if keys <= most else min(GUESSED_BYTES, 2 * DRIVER_BYTES)
            with suppress(TooManyBytes):
                items = reader.items(window, images=images, max_bytes=size)
                stages = not in_driver and items.num_rows > self._options.stage_above and self._ready()
                most = self._most(stages, in_driver)
                if items.num_rows <= most:
                    return Slice(items)
        survey = reader.survey(window, limit=min(SAMPLE, most), max_bytes=DRIVER_BYTES)
        if survey.more and survey.last is not None:
            keys_a_change = max(1.0, (survey.last - floor) / survey.changes)
            above = self._options.stage_above
            if (
                not in_driver
                and not stages
                and keys / keys_a_change > 0.8 * above
                and reader.survey(window, limit=above).more
            ):
                stages = self._ready()
                most = self._most(stages, in_driver)
            if min(keys / keys_a_change, most) * survey.bytes <= DRIVER_BYTES * survey.changes:
                if keys / keys_a_change <= most:
                    with suppress(TooManyBytes):
                        items = reader.items(window, images=images, max_bytes=2 * DRIVER_BYTES)
                        if items.num_rows <= most:
                            return Slice(items)
                elif not in_driver and window.up_to is None and most == self.sessions.pair.most_changes:
                    uncounted = self._uncounted(window, floor, floor + int(most * keys_a_change), images)
                    if uncounted is not None:
                        return uncounted
        if survey.more:
            # However few the changes are, their contents may be too many for this process.
            stages = stages or (not in_driver and self._ready())
            limit, size = self._size(stages, in_driver)
            survey = reader.survey(window, limit=limit, max_bytes=size)
            if stages and (survey.changes > most or survey.bytes > DRIVER_BYTES):
                return Slice(None, survey.last if survey.more else None, survey)
        end = survey.last if survey.more else None
        return Slice(reader.items(window.between(window.above, end or window.up_to), images=images), end)

    def _uncounted(self, window: Window, floor: int, end: int, images: bool) -> Slice | None:
        """The slice up to the REPL_KEY `end`, which spares counting; None if it is too large."""
        reader, most = self.sessions.reader, self.sessions.pair.most_changes
        if self._growth > 1:
            return None
        try:
            items = reader.items(window.between(floor, end), max_bytes=2 * DRIVER_BYTES, images=images)
        except TooManyBytes:
            return None
        room = most - items.num_rows
        if room < 0 or not items.num_rows:
            return None
        rest = reader.survey(window.between(end), limit=room + 1)
        if rest.changes > room:
            return Slice(items, end)
        if items.nbytes + rest.bytes > 2 * DRIVER_BYTES:
            return None
        # The rest fits too, so the window is applied as a whole.
        more = reader.items(window.between(end), images=images)
        both = pa.concat_tables([items, more])
        mixed = unordered(items) or unordered(more)
        return Slice(marked(both, unordered=mixed, oversized=[*oversized(items), *oversized(more)]))

    def _most(self, stages: bool, in_driver: bool) -> int:
        """Changes up to which the driver reads a slice itself."""
        if in_driver:
            return LOADING_SLICE * self._growth
        most = self.sessions.pair.most_changes
        return min(self._options.stage_above, most) if stages else most

    def _size(self, stages: bool, in_driver: bool) -> tuple[int, int]:
        """The most changes and bytes of contents of a slice."""
        if in_driver:
            return self._most(stages, in_driver), LOADING_BYTES * self._growth
        size = BATCH_BYTES if stages else DRIVER_BYTES
        return self.sessions.pair.most_changes * self._growth, size * self._growth
