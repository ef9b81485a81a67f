"""What the last purge of ITEMS found that a person should know, for pages and notices.

Redis may lose it: the next purge writes it again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import redis

from sluice.domain.names import Prefix
from sluice.stores.redis_store import classified


@dataclass(frozen=True)
class Found:
    """Of one replication."""

    warning: str = ""
    """How much of `items_limit` is used; empty below the share from which on people are warned."""
    since: str = ""
    """When that was seen first, ISO 8601, UTC."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Slave → why it was dropped, of slaves that do not answer."""


class ItemsState:
    """Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        # Between two colons: no slave is called so.
        self.key = f"sluice:{prefix}::items"

    def write(self, warning: str, dropped: Mapping[str, str], now: str) -> None:
        """An unbroken warning keeps its `since`."""
        since = (self.read().since or now) if warning else ""
        with classified():
            self.client.set(self.key, json.dumps({"warning": warning, "since": since, "dropped": dict(dropped)}))

    def read(self) -> Found:
        """Nothing where nothing was found."""
        with classified():
            text = self.client.get(self.key)
        return Found(**json.loads(str(text))) if text else Found()
