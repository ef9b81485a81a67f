"""How an apply waits: for changes of the master, through an outage, and for what other processes ask of it."""

import time

from sluice.coordination.gate import Closure
from sluice.coordination.signals import Signals
from sluice.database.errors import LoginRefused
from sluice.errors import SluiceError, Transient
from sluice.pair import ConnectionsOutdated, Pair

# Decides whether an apply tries again after an outage, or ends for a new process.

LONGEST_BACKOFF_SECONDS = 15.0
LONG_OUTAGE_SECONDS = 600.0
"""An apply that lived this long is started again at once (`sluice.airflow.restart_policy`)."""


class Outages:
    """The outages of one apply. `logged_in`: whether its process has been connected to both databases."""

    def __init__(self, pair: Pair, *, logged_in: bool):
        self.pair = pair
        self.logged_in = logged_in
        self._backoff = 0.0
        self._since: float | None = None

    def ended(self) -> None:
        """A turn went well."""
        self._backoff, self._since = 0.0, None

    def pause(self, outage: Transient) -> float:
        """Seconds to wait before the next try. Raises `ConnectionsOutdated` after outages of `LONG_OUTAGE_SECONDS`
        without a turn in between."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        elif now - self._since > LONG_OUTAGE_SECONDS:
            raise ConnectionsOutdated(self.pair, outage) from outage
        self._backoff = min(max(2 * self._backoff, 0.25), LONGEST_BACKOFF_SECONDS)
        return self._backoff

    def refused(self, refusal: LoginRefused) -> SluiceError:
        """The meaning of a refused login: a person must act, unless the account was admitted before."""
        return ConnectionsOutdated(self.pair, refusal) if self.logged_in else refusal


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
