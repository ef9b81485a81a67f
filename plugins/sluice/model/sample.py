"""One minute of an apply: how far it was behind, and how much it did."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

MINUTE = 60.0
RATE_SECONDS = 10.0
"""The rate is that of so many seconds."""
WINDOWS_KEPT = 20


@dataclass(frozen=True)
class Sample:
    """What a minute was like."""

    minute: int
    """Minutes since 1970, UTC."""
    lag: float | None
    """Seconds by which the slave was behind, the most of that minute; None where it is not known."""
    changes: int
    """Changes applied."""

    def text(self) -> str:
        """As it is stored."""
        return f"{self.minute}|{'' if self.lag is None else round(self.lag, 2)}|{self.changes}"

    @classmethod
    def parse(cls, text: str) -> "Sample":
        """From what `text` gave."""
        minute, lag, changes = text.split("|")
        return cls(int(minute), float(lag) if lag else None, int(changes))


@dataclass(frozen=True)
class AppliedWindow:
    """A window, or a slice of one, that was applied."""

    at: float
    """When it was committed, seconds since 1970."""
    changes: int
    seconds: float
    """How long it took."""


class Sampler:
    """Adds up what an apply does. Times are seconds since 1970; they may go back where the clock is set."""

    def __init__(self) -> None:
        self._windows: deque[AppliedWindow] = deque()
        self._minute: int | None = None
        self._lag: float | None = None
        self._changes = 0

    def applied(self, window: AppliedWindow) -> None:
        """A window was applied."""
        self._changes += window.changes
        self._windows.append(window)
        self._forget(window.at)

    def look(self, now: float, lag: float | None) -> Sample | None:
        """Notes how far behind the slave is; the sample of the minute before, where a new one has begun."""
        minute, over = int(now // MINUTE), None
        if self._minute is not None and minute != self._minute:
            over = Sample(self._minute, self._lag, self._changes)
            self._lag, self._changes = None, 0
        self._minute = minute
        if lag is not None:
            self._lag = max(lag, self._lag or 0.0)
        return over

    def rate(self, now: float) -> float:
        """Changes a second, of the last seconds."""
        return sum(window.changes for window in self._windows if 0 <= now - window.at < RATE_SECONDS) / RATE_SECONDS

    def windows(self, now: float) -> Sequence[AppliedWindow]:
        """The windows of the last minute, the latest of them, oldest first."""
        self._forget(now)
        return list(self._windows)[-WINDOWS_KEPT:]

    def _forget(self, now: float) -> None:
        while self._windows and not 0 <= now - self._windows[0].at < MINUTE:
            self._windows.popleft()
