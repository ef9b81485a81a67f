"""What the last purge of ITEMS found that a person should know, for pages and notices.

Redis may lose it: the next purge writes it again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix


@dataclass(frozen=True)
class Found:
    """Of one replication."""

    warning: str = ""
    """How much of `items_limit` is used; empty below the share from which on people are warned."""
    since: str = ""
    """When that was seen first, ISO 8601, UTC."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Slave → why it was dropped, of slaves that do not answer."""
    not_dropped: Mapping[str, str] = field(default_factory=dict)
    """Slave → why it was not dropped although the limit is reached and it is the furthest behind, with the remedy."""


class ItemsState:
    """Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        # Between two colons: no slave is called so.
        self.key = f"sluice:{prefix}::items"

    def write(self, found: Found, now: str) -> None:
        """With `since`: an unbroken warning keeps its own."""
        since = (self.read().since or now) if found.warning else ""
        with classified():
            self.client.set(self.key, json.dumps(asdict(replace(found, since=since))))

    def read(self) -> Found:
        """Nothing where nothing was found."""
        with classified():
            return parsed(self.client.get(self.key))


def parsed(text: object) -> Found:
    """From what Redis has."""
    return Found(**json.loads(str(text))) if text else Found()
