"""Logs once a minute what an apply has done since."""

import logging
import time

from sluice.counted import counted
from sluice.model.position import Position
from sluice.model.safemode import SafeMode
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")

SUMMARY_SECONDS = 60.0


class SummaryLog:
    """The summary log of one apply, in its thread."""

    def __init__(self, pair: Pair):
        self.pair = pair
        self._begin()

    def applied(self, changes: int, seconds: float) -> None:
        """Notes a window, or a slice."""
        self._windows += 1
        self._changes += changes
        self._busy_seconds += seconds

    def log(self, seen: Position | None, mode: SafeMode) -> None:
        """Logs a line where it is time to."""
        now = time.monotonic()
        if now - self._since < SUMMARY_SECONDS:
            return
        seconds = now - self._since
        log.info(
            "%s: %s in %s in %.0f s (%.0f/s), busy %.0f %%, current as of %s, safe mode %s",
            self.pair, counted(self._changes, "change"), counted(self._windows, "window"), seconds,
            self._changes / seconds, 100 * self._busy_seconds / seconds,
            seen.time if seen else "never", mode.explain(now),
        )  # fmt: skip
        self._begin()

    def _begin(self) -> None:
        self._windows = self._changes = 0
        self._busy_seconds = 0.0
        self._since = time.monotonic()
