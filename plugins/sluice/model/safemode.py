"""When the apply runs in safe mode, decided without any I/O.

Safe mode makes every change idempotent. It is on

1. always, where the configuration says `safe_mode: true` (or `on_conflict: overwrite`, which means the same);
2. after an abnormal stop that left a `safemode_exit` in the checkpoint: until the applied position
   covers it. The exit point is cleared durably before the mode ends, so that a later start cannot
   take it for its own;
3. otherwise, after every start: for two checkpoint intervals *and* until the applied position covers
   where the master stood at the start. The second half is ours: with a clock alone a slow slave
   could still be inside the overlap when the mode ends.

Where the master stood at the start is asked after this apply has claimed the slave. A predecessor took
every window before that, and cannot commit one any more: what it may have applied lies before it. While
a window goes in slices, the applied position is that before the window: the mode ends between windows.
"""

from dataclasses import dataclass
from typing import Literal

from sluice.model.position import Position

Reason = Literal["configured", "exit point", "started"]


@dataclass(frozen=True)
class SafeMode:
    """Why safe mode is on, and what ends it. `OFF` is the normal, strict mode."""

    reason: Reason | None = None
    until: Position | None = None
    """The applied position must cover this."""
    until_clock: float = 0.0
    """With reason `started`: not before this moment of the caller's monotonic clock, seconds."""

    @property
    def on(self) -> bool:
        return self.reason is not None

    def after(self, applied: Position, clock: float) -> "SafeMode":
        """The mode once `applied` is the applied position: itself, or OFF."""
        if self.reason in (None, "configured"):
            return self
        if self.until is None or not applied.covers_all_of(self.until):
            return self
        if self.reason == "started" and clock < self.until_clock:
            return self
        return OFF

    def explain(self, clock: float) -> str:
        """For logs and pages: on or off, why, and when it will end."""
        if self.reason is None:
            return "off"
        if self.reason == "configured":
            return "on, because the configuration says safe_mode: true or on_conflict: overwrite; it stays on"
        until = f"until everything up to {self.until.time if self.until else 'the start'} is applied"
        if self.reason == "exit point":
            return f"on after an abnormal stop, {until}"
        seconds = max(0.0, self.until_clock - clock)
        return f"on after the start, for {seconds:.0f} s more and {until}"


OFF = SafeMode()


def at_start(
    *,
    configured: bool,
    exit_point: Position | None,
    master_now: Position,
    clock: float,
    checkpoint_interval: float,
    overlap: bool = False,
) -> SafeMode:
    """The mode of an apply that starts. `checkpoint_interval` in seconds; the mode lasts two of them.

    `overlap`: the checkpoint does not travel with the data. An apply that was killed behind its exit point
    left more than that behind, so the mode lasts until all that happened before the start is applied.
    """
    if configured:
        return SafeMode("configured")
    if exit_point is not None:
        return SafeMode("exit point", master_now if overlap else exit_point)
    return SafeMode("started", master_now, clock + 2 * checkpoint_interval)
