"""What an apply did, minute by minute, for curves on pages. Bounded; Redis may lose it."""

from collections.abc import Sequence

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix
from sluice.model.sample import Sample

KEPT = 26 * 60
"""Minutes that are kept: a day, and some more."""


class History:
    """The samples of one slave, oldest first. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:history"

    def append(self, sample: Sample) -> None:
        """Adds one, and forgets what is older than `KEPT`."""
        with classified(), self.client.pipeline() as pipe:
            pipe.rpush(self.key, sample.text())
            pipe.ltrim(self.key, -KEPT, -1)
            pipe.expire(self.key, KEPT * 60)
            pipe.execute()

    def read(self, minutes: int = KEPT) -> list[Sample]:
        """The last ones, at most as many as `minutes`."""
        with classified():
            texts = self.client.lrange(self.key, -minutes, -1)
        return parsed(texts)


def parsed(texts: Sequence[object]) -> list[Sample]:
    """From what Redis has."""
    return [Sample.parse(str(text)) for text in texts]
