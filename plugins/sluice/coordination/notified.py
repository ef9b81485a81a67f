"""Which occasions people were told of already, by which notifier."""

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix

KEPT_SECONDS = 180 * 24 * 3600


class Notified:
    """The occasions of one replication. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        self._stem = f"sluice:{prefix}:told:"

    def known(self, key: str) -> bool:
        """Whether `key` was noted."""
        with classified():
            return bool(self.client.exists(self._stem + key))

    def forget(self, key: str) -> None:
        """It is over: the next occasion is another one."""
        with classified():
            self.client.delete(self._stem + key)

    def note(self, key: str) -> None:
        """Notes that it was told; forgotten after half a year."""
        with classified():
            self.client.set(self._stem + key, "", ex=KEPT_SECONDS)
