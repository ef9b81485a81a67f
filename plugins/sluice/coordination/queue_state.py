"""The size of a master's ITEMS, as its applies last measured it. Redis may lose it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import redis

from sluice.coordination.redis_store import classified
from sluice.model.backlog import Backlog
from sluice.model.names import Prefix

EVERY_SECONDS = 60
EXPIRES_SECONDS = 24 * 3600


@dataclass(frozen=True)
class MeasuredQueue:
    """ITEMS of a prefix at one moment."""

    at: str
    """ISO 8601, UTC."""
    changes: int
    bytes: int
    held_by: tuple[str, ...] = ()
    held_since: str | None = None
    resources: int | None = None
    """Version of DbResources."""

    @classmethod
    def parse(cls, text: object) -> "MeasuredQueue | None":
        """Parses the value in Redis; None without a value."""
        if not text:
            return None
        values = json.loads(str(text))
        return cls(**{**values, "held_by": tuple(values["held_by"])})


class QueueState:
    """Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        # Two colons: no name of a slave is empty.
        self.key = f"sluice:{prefix}::queue"
        self._turn = f"{self.key}:turn"

    def measure(self, backlog: Callable[[], Backlog], version: Callable[[], int | None] = lambda: None) -> None:
        """Stores `backlog` and `version` of DbResources, unless another process did so within the last minute."""
        with classified():
            if not self.client.set(self._turn, "", nx=True, ex=EVERY_SECONDS):
                return
        waiting = backlog()
        values = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "changes": waiting.changes,
            "bytes": waiting.bytes,
            "held_by": waiting.held_by,
            "held_since": waiting.held_since and waiting.held_since.isoformat(timespec="seconds"),
            "resources": version(),
        }
        with classified():
            self.client.set(self.key, json.dumps(values), ex=EXPIRES_SECONDS)

    def read(self) -> MeasuredQueue | None:
        """None if it was not measured for a day."""
        with classified():
            return MeasuredQueue.parse(self.client.get(self.key))
