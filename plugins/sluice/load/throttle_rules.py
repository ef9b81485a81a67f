"""When a load must pause: limits of the configuration against what was measured. Pure functions, no I/O.

What cannot be measured counts as beyond its limit, and the reason says what to do about it: a limit that silently
does not hold would be worse than a load that waits.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from sluice.config import ThrottleOptions
from sluice.model.throttle_state import ThrottleState

Reading = float | str | None
"""A number; or a text, why it could not be had; or None, which nobody asked for."""
HISTORY_SECONDS = 3600.0


@dataclass(frozen=True)
class Readings:
    """What was measured at a moment."""

    active_sessions: Reading = None
    lock_waits: Reading = None
    replica_lag: Reading = None
    query: Reading = None
    apply_lag: Reading = None


def exceeded(limits: ThrottleOptions, readings: Readings, source: str) -> list[str]:
    """Why the load must pause, one sentence each, as `limits` has them; none: it may go on. `source`: their file."""
    reasons = [f"initial.throttle.pause is set in {source}"] if limits.pause else []
    judged: list[tuple[Reading, float | None, str, str]] = [
        (readings.active_sessions, limits.active_sessions, "active sessions on the master", ""),
        (readings.lock_waits, limits.lock_waits, "sessions that wait for locks on the master", ""),
        (readings.replica_lag, limits.replica_lag, "the lag of the master's standbys", " s"),
        (readings.query, limits.query_limit if limits.query else None, "the query of initial.throttle", ""),
        (readings.apply_lag, limits.apply_lag, "the lag of the apply", " s"),
    ]
    for reading, limit, what, unit in judged:
        if limit is None or reading is None:
            continue
        if isinstance(reading, str):
            reasons.append(f"{what}: {reading}; mend that, or take the limit out of {source}")
        elif reading > limit:
            reasons.append(f"{what}: {_number(reading)}{unit}, the limit is {_number(limit)}{unit}")
    return reasons


def throttle_state(limits: ThrottleOptions, reasons: Iterable[str], loaders: int) -> ThrottleState:
    """What the workers of a job are held to."""
    reason = "; ".join(reasons)
    size = limits.megabytes_per_second
    return ThrottleState(
        bool(reason), reason, limits.rows_per_second, None if size is None else size * 1_000_000, loaders
    )


def load_message(update_id: str, state: ThrottleState) -> str:
    """The slave's message while its load goes on."""
    if state.paused:
        return f"Initial update {update_id} waits: {state.reason}"
    rate = rate_of(state)
    return f"Initial update {update_id} is loading" + (f", {rate}" if rate else "")


def rate_of(state: ThrottleState) -> str:
    """`at most 10,000 rows/s, 5 MB/s`; empty where no rate is set."""
    parts = []
    if state.rows_per_second is not None:
        parts.append(f"{state.rows_per_second:,.0f} rows/s")
    if state.bytes_per_second is not None:
        parts.append(f"{state.bytes_per_second / 1e6:g} MB/s")
    return f"at most {', '.join(parts)}" if parts else ""


@dataclass
class StandbyLag:
    """How far standbys are behind in time, also one that stands still: a server measures the lag of one only that
    moves. Looked at again and again, it remembers when the WAL ended where."""

    _ends: deque[tuple[float, int]] = field(default_factory=deque)
    """When (seconds), and the end of the WAL then; oldest first."""

    def look(self, now: float, wal: int, replayed: Iterable[int]) -> float:
        """Seconds by which the slowest of `replayed` is behind; 0 where there is none. Positions in bytes."""
        if not self._ends or wal > self._ends[-1][1]:
            self._ends.append((now, wal))
        while self._ends and self._ends[0][0] < now - HISTORY_SECONDS:
            self._ends.popleft()
        slowest = min(replayed, default=None)
        if slowest is None:
            return 0.0
        # The first end that it has not reached yet was written at that time, or earlier.
        return next((now - at for at, end in self._ends if end > slowest), 0.0)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
