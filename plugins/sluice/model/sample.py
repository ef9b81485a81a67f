"""Samples: one minute of an apply, with its lag and its changes."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

MINUTE = 60.0
RATE_SECONDS = 10.0
"""The rate is computed over this number of seconds."""
WINDOWS_KEPT = 20


@dataclass(frozen=True)
class Sample:
    """The sample of a minute."""

    minute: int
    """Minutes since 1970, UTC."""
    lag: float | None
    """The greatest lag in that minute, in seconds; None if unknown."""
    changes: int
    """The number of applied changes."""

    def text(self) -> str:
        """The text for storage."""
        return f"{self.minute}|{'' if self.lag is None else round(self.lag, 2)}|{self.changes}"

    @classmethod
    @lru_cache(maxsize=65_536)
    def parse(cls, text: str) -> "Sample":
        """Reads a text of `text`. Pages read the same ones again and again."""
        minute, lag, changes = text.split("|")
        return cls(int(minute), float(lag) if lag else None, int(changes))


class Samples(tuple[Sample, ...]):
    """Samples that were read together. As a key it is itself alone, so that nobody compares the samples one by one."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


@dataclass(frozen=True)
class AppliedWindow:
    """A window, or a slice of one, that was applied."""

    at: float
    """When it was committed: seconds since 1970."""
    changes: int
    seconds: float
    """Its duration, in seconds."""


class Sampler:
    """Collects samples of an apply. Times are seconds since 1970; they may go backwards if the clock is set."""

    def __init__(self) -> None:
        self._windows: deque[AppliedWindow] = deque()
        self._minute: int | None = None
        self._lag: float | None = None
        self._changes = 0

    def applied(self, window: AppliedWindow) -> None:
        """Adds an applied window."""
        self._changes += window.changes
        self._windows.append(window)
        self._forget(window.at)

    def sample(self, now: float, lag: float | None) -> Sample | None:
        """Records the lag of the slave. Returns the sample of the last minute if a new one has begun."""
        minute, over = int(now // MINUTE), None
        if self._minute is not None and minute != self._minute:
            over = Sample(self._minute, self._lag, self._changes)
            self._lag, self._changes = None, 0
        self._minute = minute
        if lag is not None:
            self._lag = max(lag, self._lag or 0.0)
        return over

    def rate(self, now: float) -> float:
        """The changes per second in the last seconds."""
        return sum(window.changes for window in self._windows if 0 <= now - window.at < RATE_SECONDS) / RATE_SECONDS

    def windows(self, now: float) -> Sequence[AppliedWindow]:
        """The latest windows of the last minute, oldest first."""
        self._forget(now)
        return list(self._windows)[-WINDOWS_KEPT:]

    def _forget(self, now: float) -> None:
        while self._windows and not 0 <= now - self._windows[0].at < MINUTE:
            self._windows.popleft()
