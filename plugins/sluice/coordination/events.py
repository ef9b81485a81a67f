"""Events of a slave, for pages. Bounded; Redis may lose them."""

from collections.abc import Iterable, Sequence

import redis

from sluice.coordination.redis_store import classified
from sluice.model.event import Event
from sluice.model.names import Prefix

KEPT = 2_000
KEPT_SECONDS = 14 * 24 * 3600


def key(prefix: Prefix | str, slave: str) -> str:
    return f"sluice:{prefix}:{slave}:events"


class Events:
    """The events of one slave, oldest first. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = key(prefix, slave)

    def add(self, events: Iterable[Event]) -> None:
        """Appends events, and removes the oldest beyond `KEPT`."""
        texts = [event.stored() for event in events]
        if not texts:
            return
        with classified(), self.client.pipeline() as pipe:
            pipe.rpush(self.key, *texts)
            pipe.ltrim(self.key, -KEPT, -1)
            pipe.expire(self.key, KEPT_SECONDS)
            pipe.execute()

    def read(self, most: int = KEPT) -> list[Event]:
        """The latest events."""
        with classified():
            return parsed(self.client.lrange(self.key, -most, -1))


def parsed(texts: Sequence[object]) -> list[Event]:
    """Parses the value in Redis."""
    return [Event.parse(str(text)) for text in texts]
