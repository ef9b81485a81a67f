"""Decides how long Spark may take for its share of a window before it counts as stuck; no I/O.

A frozen process and a slow one look alike. So the limit is a multiple of the time that a share of this size took at the
best pace measured so far.
"""

FIRST_SECONDS, SECONDS = 60.0, 30.0
"""Seconds allowed beside the time for the share's size; the first time executors must start as well."""
SLACK = 10.0
"""How many times slower than the best pace a share may be."""
PACE = 1 / 20_000_000
"""Seconds a byte before anything is measured: a third of what two cores did (docs/performance.md)."""
CHANGE_BYTES = 100
"""The work for a change beside its contents, as bytes of contents."""


def size(changes: int, contents: int) -> int:
    """The work that a window is, in bytes; `contents`: their bytes."""
    return contents + CHANGE_BYTES * changes


class SparkDeadline:
    """The time limits of one process."""

    def __init__(self) -> None:
        self._seconds = FIRST_SECONDS
        self._pace = PACE
        self._failures = 0

    def limit(self, size: int) -> float:
        """Seconds for a share of the given size."""
        return float((self._seconds + SLACK * self._pace * size) * 2**self._failures)

    def done(self, size: int, seconds: float) -> None:
        """Notes how long a window took."""
        self._seconds, self._failures = SECONDS, 0
        self._pace = min(self._pace, seconds / max(size, 1))

    def failed(self) -> None:
        """Notes that a share timed out. The next try has twice the time, so that slow work ends eventually."""
        self._failures += 1
