"""When the apply runs in safe mode (seed 002), decided without any I/O.

Safe mode makes every change idempotent. It is on

1. always, where the configuration says `safe_mode: true` (or `on_conflict: overwrite`, which means the same);
2. after an abnormal stop that left a `safemode_exit` in the checkpoint: until the applied position
   covers it. The exit point is cleared durably before the mode ends, so that a later start cannot
   take it for its own;
3. otherwise, after every start: for two checkpoint intervals *and* until the applied position covers
   where the master stood at the start. The second half is ours: with a clock alone a slow slave
   could still be inside the overlap when the mode ends.
"""

from dataclasses import dataclass
from typing import Literal

from sluice.domain.position import Position

Reason = Literal["configured", "exit point", "started"]


@dataclass(frozen=True)
class SafeMode:
    """Why safe mode is on, and what ends it. `OFF` is the normal, strict mode."""

    reason: Reason | None = None
    until: Position | None = None
    """The applied position must cover this; for `started`, known once the master was asked."""
    until_clock: float = 0.0
    """With reason `started`: not before this moment of the caller's monotonic clock, seconds."""

    @property
    def on(self) -> bool:
        return self.reason is not None

    @property
    def exit_point(self) -> Position | None:
        """What must stand in the checkpoint while this mode lasts."""
        return self.until if self.reason == "exit point" else None

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
            return "on, because the configuration says safe_mode: true or on_conflict: overwrite"
        if self.reason == "exit point":
            return "on after an abnormal stop, until the stored exit point is passed"
        seconds = max(0.0, self.until_clock - clock)
        return f"on after the start, for {seconds:.0f} s more and until all that happened before the start is applied"


OFF = SafeMode()


def at_start(
    *, configured: bool, exit_point: Position | None, master_now: Position, clock: float, checkpoint_interval: float
) -> SafeMode:
    """The mode of an apply that starts. `checkpoint_interval` in seconds; the mode lasts two of them."""
    if configured:
        return SafeMode("configured")
    if exit_point is not None:
        return SafeMode("exit point", exit_point)
    return SafeMode("started", master_now, clock + 2 * checkpoint_interval)
