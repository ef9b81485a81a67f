"""What a load is held to at a moment: kept on the slave, where every worker of the job sees it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ThrottleState:
    """One row of `<prefix>THROTTLE`, and how far the load is ahead of its rate."""

    paused: bool = False
    """No block may be begun."""
    reason: str = ""
    """Why, for people."""
    rows_per_second: float | None = None
    bytes_per_second: float | None = None
    loaders: int = 1
    """Workers that share the rate."""
    ahead_seconds: float = 0.0
    """For so long nothing may be begun, after what was stored and exported since the rate is in force."""

    @property
    def holds(self) -> bool:
        """Whether a worker must wait before it claims a block."""
        return self.paused or self.ahead_seconds > 0
