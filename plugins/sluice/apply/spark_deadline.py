"""How long Spark may take for its share of a window before it counts as stuck, decided without any I/O.

A frozen process says nothing, and neither does a slow one. So the limit follows from what was measured: many times
as long as a share of its size took at the best pace that this process has seen.
"""

FIRST_SECONDS, SECONDS = 60.0, 30.0
"""Allowed beside what the size of a share needs: at first executors have yet to come up."""
SLACK = 10.0
"""So many times slower than the best pace may a share go."""
PACE = 1 / 20_000_000
"""Seconds a byte where nothing was measured yet, a third of what two cores did (docs/performance.md)."""
CHANGE_BYTES = 100
"""What a change costs beside its contents, in bytes of them."""


def size(changes: int, contents: int) -> int:
    """Bytes that say how much work a window is; `contents` in bytes."""
    return contents + CHANGE_BYTES * changes


class SparkDeadline:
    """The limits of one process."""

    def __init__(self) -> None:
        self._seconds = FIRST_SECONDS
        self._pace = PACE
        self._failures = 0

    def limit(self, size: int) -> float:
        """Seconds for a share of a window of so many bytes."""
        return float((self._seconds + SLACK * self._pace * size) * 2**self._failures)

    def done(self, size: int, seconds: float) -> None:
        """A window took so long."""
        self._seconds, self._failures = SECONDS, 0
        self._pace = min(self._pace, seconds / max(size, 1))

    def failed(self) -> None:
        """It did not come to an end. The next try has twice as long, so that slow work is not begun for ever."""
        self._failures += 1
