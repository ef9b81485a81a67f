"""The throttle of a load, stored on the slave, where every worker of the job reads it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ThrottleState:
    """A row of `<prefix>THROTTLE`, and how far the load is ahead of its rate."""

    paused: bool = False
    """The load pauses: no block may be begun."""
    reason: str = ""
    """The reason, for people."""
    rows_per_second: float | None = None
    bytes_per_second: float | None = None
    loaders: int = 1
    """The number of workers that share the rate."""
    ahead_seconds: float = 0.0
    """For how many seconds no block may be begun, after what was stored and exported since the rate was set."""

    @property
    def holds(self) -> bool:
        """Whether a worker must wait before it claims a block."""
        return self.paused or self.ahead_seconds > 0
