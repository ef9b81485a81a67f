"""Decides whether an apply tries again after an outage, or ends for a new process."""

import time

from sluice.database.errors import LoginRefused
from sluice.errors import SluiceError, Transient
from sluice.pair import ConnectionsOutdated, Pair

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
