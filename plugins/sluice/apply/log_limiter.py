"""Limits log lines that could repeat with every window to a few of each kind a minute."""

import logging
import time
from collections.abc import Callable


class LogLimiter:
    """Writes at most `most` lines of a kind in `seconds`."""

    def __init__(
        self,
        log: logging.Logger,
        *,
        most: int = 5,
        seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._log = log
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._kinds: dict[str, tuple[float, int]] = {}
        """Kind → when its current period began, and how many lines came since."""

    def log(self, level: int, kind: str, text: str) -> None:
        now = self._clock()
        begun, lines = self._kinds.get(kind, (now, 0))
        if now - begun >= self._seconds:
            if lines > self._most:
                self._log.log(level, "… and %d more such lines in %.0f s", lines - self._most, now - begun)
            begun, lines = now, 0
        self._kinds[kind] = (begun, lines + 1)
        if lines < self._most:
            self._log.log(level, "%s", text)
