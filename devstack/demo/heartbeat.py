"""Measures the lag: the time from a commit on the master until the change is visible on the slave.

Ten times a second the demo sets the row of `public.heartbeat` on the master to the next number, and records the time
just before it sends the statement. A thread reads the slave's row repeatedly. When it first shows number n, every beat
up to n has arrived. The lag of a beat is the difference of the two times, by the clock of this process. It includes the
master's commit and half the interval between reads, so it is never too small.
"""

import bisect
import threading
import time
from collections.abc import Sequence

from devstack.demo import accounts
from sluice.database.errors import DatabaseError
from sluice.model.connection import ConnectionInfo

INTERVAL = 0.1
"""Seconds between two beats."""
LOOK = 0.025
"""Seconds between two reads of a slave."""


class Beats:
    """When each beat was sent. All meters share it. Beats that failed because the master was down are absent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: list[int] = []
        self._times: list[float] = []

    def add(self, number: int, at: float) -> None:
        with self._lock:
            self._numbers.append(number)
            self._times.append(at)

    def between(self, after: int, upto: int) -> list[tuple[int, float]]:
        """Returns (number, time) of the beats in (after, upto]."""
        with self._lock:
            low, high = bisect.bisect_right(self._numbers, after), bisect.bisect_right(self._numbers, upto)
            return list(zip(self._numbers[low:high], self._times[low:high], strict=True))

    def oldest_after(self, number: int) -> float | None:
        """Returns when the first beat after `number` was sent, or None when there is none."""
        with self._lock:
            index = bisect.bisect_right(self._numbers, number)
            return self._times[index] if index < len(self._times) else None


class Heartbeat(threading.Thread):
    """Writes the beats until stopped. It reconnects after restarts of the master."""

    def __init__(self, master: ConnectionInfo) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self.beats = Beats()
        self._master = master
        self._stopping = threading.Event()

    def run(self) -> None:
        number, connection = 0, None
        table = accounts.table(self._master, "heartbeat")
        statement = f"UPDATE {table} SET beat = %s, written_at = CURRENT_TIMESTAMP WHERE id = 1".encode()
        while not self._stopping.wait(INTERVAL):
            try:
                if connection is None or connection.closed:
                    connection = accounts.connect(self._master, "heartbeat")
                number += 1
                at = time.monotonic()
                connection.execute(statement, [number])
                self.beats.add(number, at)
            except DatabaseError:
                if connection is not None:
                    connection.close()
        if connection is not None:
            connection.close()

    def stop(self) -> None:
        """Stops, and returns when no beat is being written."""
        self._stopping.set()
        if self.is_alive():
            self.join(10)


class LagMeter(threading.Thread):
    """Records when the beats arrive on one slave."""

    def __init__(self, slave: ConnectionInfo, beats: Beats) -> None:
        super().__init__(name="meter", daemon=True)
        self._slave, self._beats = slave, beats
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._seen = 0
        self._lags: list[tuple[float, float]] = []

    def run(self) -> None:
        connection = None
        query = f"SELECT beat FROM {accounts.table(self._slave, 'heartbeat')} WHERE id = 1".encode()
        while not self._stopping.wait(LOOK):
            try:
                if connection is None or connection.closed:
                    connection = accounts.connect(self._slave, "meter")
                row = connection.execute(query).fetchone()
                if row:
                    self.arrived(int(row[0]), time.monotonic())
            except DatabaseError:  # down, or the table is not loaded yet
                if connection is not None:
                    connection.close()
                self._stopping.wait(0.2)
        if connection is not None:
            connection.close()

    def arrived(self, number: int, at: float) -> None:
        """Records that the slave shows this number."""
        with self._lock:
            if number <= self._seen:
                return
            fresh = self._beats.between(self._seen, number)
            self._seen = number
            self._lags += [(at, at - sent) for _, sent in fresh]

    def lags(self, since: float = 0.0, until: float = float("inf")) -> list[float]:
        """Returns the lags in seconds of the beats that arrived between two times of `time.monotonic`."""
        with self._lock:
            return [lag for at, lag in self._lags if since <= at <= until]

    def follows(self, at: float) -> bool:
        """Whether a beat that was sent after `at` has arrived."""
        with self._lock:
            return any(arrived - lag > at for arrived, lag in reversed(self._lags))

    def now(self) -> float | None:
        """Returns the age of the oldest beat that the slave does not show, 0.0 if it shows all, None before the
        first."""
        with self._lock:
            seen = self._seen
        if not seen:
            return None
        sent = self._beats.oldest_after(seen)
        return time.monotonic() - sent if sent is not None else 0.0

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(10)


def percentile(values: Sequence[float], share: float) -> float | None:
    """Returns the value at or below which `share` (0 to 1) of the values are, or None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]
