"""Decides when a load must pause: compares measurements with the configured limits. Pure functions, no I/O.

What cannot be measured counts as beyond its limit, and the reason says what to do: a limit that silently does not apply
would be worse than a load that waits.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from sluice.configuration.options import ThrottleOptions
from sluice.model.throttle_state import ThrottleState

Reading = float | str | None
"""A number; or a text that says why it could not be measured; or None for what was not measured."""
HISTORY_SECONDS = 3600.0


@dataclass(frozen=True)
class Readings:
    """One measurement."""

    active_sessions: Reading = None
    lock_waits: Reading = None
    replica_lag: Reading = None
    query: Reading = None
    apply_lag: Reading = None


def exceeded(limits: ThrottleOptions, readings: Readings, source: str) -> list[str]:
    """The reasons why the load must pause, one sentence each; empty if it may continue. `source`: the file."""
    reasons = [f"initial.throttle.pause is set in {source}"] if limits.pause else []
    compared: list[tuple[Reading, float | None, str, str]] = [
        (readings.active_sessions, limits.active_sessions, "active sessions on the master", ""),
        (readings.lock_waits, limits.lock_waits, "sessions that wait for locks on the master", ""),
        (readings.replica_lag, limits.replica_lag, "the lag of the master's standbys", " s"),
        (readings.query, limits.query_limit if limits.query else None, "the query of initial.throttle", ""),
        (readings.apply_lag, limits.apply_lag, "the lag of the apply", " s"),
    ]
    for reading, limit, what, unit in compared:
        if limit is None or reading is None:
            continue
        if isinstance(reading, str):
            reasons.append(f"{what}: {reading}; fix that, or remove the limit from {source}")
        elif reading > limit:
            reasons.append(f"{what}: {_number(reading)}{unit}, the limit is {_number(limit)}{unit}")
    return reasons


def throttle_state(limits: ThrottleOptions, reasons: Iterable[str], loaders: int) -> ThrottleState:
    """The limits for the workers of a job."""
    reason = "; ".join(reasons)
    size = limits.megabytes_per_second
    return ThrottleState(
        bool(reason), reason, limits.rows_per_second, None if size is None else size * 1_000_000, loaders
    )


def load_message(update_id: str, state: ThrottleState) -> str:
    """The slave's message during its load."""
    if state.paused:
        return f"Initial update {update_id} waits: {state.reason}"
    rate = rate_of(state)
    return f"Initial update {update_id} is loading" + (f", {rate}" if rate else "")


def rate_of(state: ThrottleState) -> str:
    """`at most 10,000 rows/s, 5 MB/s`; empty if no rate is set."""
    parts = []
    if state.rows_per_second is not None:
        parts.append(f"{state.rows_per_second:,.0f} rows/s")
    if state.bytes_per_second is not None:
        parts.append(f"{state.bytes_per_second / 1e6:g} MB/s")
    return f"at most {', '.join(parts)}" if parts else ""


@dataclass
class StandbyLag:
    """Computes the lag of standbys in time, from the WAL's end at earlier calls.

    A server itself measures only the lag of a standby that makes progress.
    """

    _ends: deque[tuple[float, int]] = field(default_factory=deque)
    """Times (seconds) with the WAL's end then, oldest first."""

    def measure(self, now: float, wal: int, replayed: Iterable[int]) -> float:
        """Seconds that the slowest standby is behind; 0 if there is none. `wal`, `replayed`: positions in bytes."""
        if not self._ends or wal > self._ends[-1][1]:
            self._ends.append((now, wal))
        while self._ends and self._ends[0][0] < now - HISTORY_SECONDS:
            self._ends.popleft()
        slowest = min(replayed, default=None)
        if slowest is None:
            return 0.0
        # The first end that it has not reached was written at that time, or earlier.
        return next((now - at for at, end in self._ends if end > slowest), 0.0)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
