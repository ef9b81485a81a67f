"""Samples of an apply, one a minute, for curves on pages. Bounded; Redis may lose them."""

from collections.abc import Sequence

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix
from sluice.model.sample import Sample

KEPT = 26 * 60
"""Minutes that are kept: a day and two hours."""


class History:
    """The samples of one slave, oldest first. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:history"

    def append(self, sample: Sample) -> None:
        """Adds a sample, and removes the oldest beyond `KEPT`."""
        with classified(), self.client.pipeline() as pipe:
            pipe.rpush(self.key, sample.text())
            pipe.ltrim(self.key, -KEPT, -1)
            pipe.expire(self.key, KEPT * 60)
            pipe.execute()

    def read(self, minutes: int = KEPT) -> list[Sample]:
        """The last samples, at most `minutes`."""
        with classified():
            texts = self.client.lrange(self.key, -minutes, -1)
        return parsed(texts)


def parsed(texts: Sequence[object]) -> list[Sample]:
    """Parses the value in Redis."""
    return [Sample.parse(str(text)) for text in texts]
