"""What an apply tells about itself, for pages."""

from dataclasses import dataclass
from typing import TypedDict


class ApplyStatus(TypedDict, total=False):
    """Times are ISO 8601. What another process sets is `state` and `message` alone."""

    state: str | None
    message: str
    activity: str
    catching_up: bool
    """A large window is applied, slice by slice."""
    current_as_of: str | None
    """The master's time of the slave's position."""
    changes: int | None
    """Applied since the slave's first position."""
    epoch: int | None
    safe_mode: str
    checkpoint: str
    configuration: str
    """A mistake in it."""
    differing: list[str]
    """Tables that a comparison found different, with the reason."""
    set_aside: list[str]
    """Tables with open rejects."""
    not_ready: dict[str, str]
    """Tables whose changes are left out, with the reason."""
    loading: list[str]
    """Tables that are being loaded while the slave is NORMAL."""
    definitions: str
    """The definition that is being followed beside the rows, with its place among those of the round."""
    spark: str
    """The address of Spark's pages."""
    at: str
    since: str
    """When the apply began."""
    rate: float
    """Changes a second."""
    windows: list[list[float]]
    """The last ones: when, changes, seconds."""
    host: str
    pid: int
    memory: int
    """In bytes."""


@dataclass(frozen=True)
class StopRequest:
    """A request to end an apply, or another job, and not to start it again."""

    by: str
    reason: str
    at: float
