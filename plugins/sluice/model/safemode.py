"""When the apply is in safe mode. No I/O.

In safe mode every change is idempotent. It is on

1. always, if the configuration says `safe_mode: true` (or `on_conflict: overwrite`, which means the same);
2. after an abnormal stop that left a `safemode_exit` in the checkpoint: until the applied position covers it. The exit
   point is cleared durably before the mode ends, so that a later start does not use it;
3. otherwise after every start: for two checkpoint intervals *and* until the applied position covers the master's
   position at the start.

In 3, a clock alone could end the mode on a slow slave before all repeated changes are applied. The master's position is
taken after this apply has claimed the slave: an earlier apply took its windows before that, and cannot commit any more.
Within a window that is applied in slices, the applied position is that before the window, so the mode ends between
windows.
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
    """It lasts until the applied position covers this."""
    until_clock: float = 0.0
    """With reason `started`: it lasts at least until this time of the caller's monotonic clock, in seconds."""

    @property
    def on(self) -> bool:
        return self.reason is not None

    def after(self, applied: Position, clock: float) -> "SafeMode":
        """The mode after `applied` became the applied position: unchanged, or OFF."""
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
    """The mode of an apply that starts.

    `checkpoint_interval`: in seconds; the mode lasts two of them. `overlap`: the checkpoint is not committed with the
    data. An apply that was killed after its exit point may have applied more, so the mode lasts until all that happened
    before the start is applied.
    """
    if configured:
        return SafeMode("configured")
    if exit_point is not None:
        return SafeMode("exit point", master_now if overlap else exit_point)
    return SafeMode("started", master_now, clock + 2 * checkpoint_interval)
