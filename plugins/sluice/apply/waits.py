"""How an apply waits: for changes of the master, and for what other processes ask of it."""

import time

from sluice.coordination.gate import Closure
from sluice.coordination.signals import Signals

# When an apply reads what other processes tell it: in each turn, and now and then while the master is at rest.

REST_SECONDS = 0.2
"""For how many seconds an apply only queries whether the master has committed anything; a whole turn costs three
times as much."""


class GateWatch:
    """The gate watch of one apply, in its thread. Each whole turn reads `closures` first, and calls `rest` if
    the slave has all that had been committed on the master."""

    def __init__(self, signals: Signals):
        self.signals = signals
        self.requested = False
        """Whether a request was waiting when `closures` was last read."""
        self._rests_until = float("-inf")

    @property
    def resting(self) -> bool:
        """Whether the next turn may be left out if the master has committed nothing."""
        return time.monotonic() < self._rests_until

    def closures(self) -> list[Closure]:
        """Why the gate is closed; empty if it is open. Raises `StoreUnreachable`."""
        self._rests_until = float("-inf")
        signals = self.signals.read()
        self.requested = signals.requested
        return signals.closures

    def rest(self) -> None:
        """Notes that a turn found nothing to do."""
        self._rests_until = time.monotonic() + REST_SECONDS


SHORTEST_SECONDS = 0.01


class Pace:
    """Of one apply, in its thread. What follows a window is expected soon, what follows a rest is not.

    So the first pause after a window is as long as the window took, and each further one twice as long, up to
    `longest` seconds. An apply under light traffic is busy for half of its time at most.
    """

    def __init__(self, longest: float):
        self._longest = longest
        self._next = longest

    def applied(self, seconds: float) -> None:
        """Notes that a window took so many seconds."""
        self._next = min(max(seconds, SHORTEST_SECONDS), self._longest)

    def pause(self) -> float:
        """Seconds to wait now."""
        seconds = self._next
        self._next = min(2 * seconds, self._longest)
        return seconds
