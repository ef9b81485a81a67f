"""The notices that were sent already, by notifier."""

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix

KEPT_SECONDS = 180 * 24 * 3600


class Notified:
    """The notices of one replication. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        self._stem = f"sluice:{prefix}:told:"

    def known(self, key: str) -> bool:
        """Whether the notice was sent."""
        with classified():
            return bool(self.client.exists(self._stem + key))

    def forget(self, key: str) -> None:
        """Its cause is mended: the next occasion is sent again."""
        with classified():
            self.client.delete(self._stem + key)

    def note(self, key: str) -> None:
        """Stores that it was sent, for half a year."""
        with classified():
            self.client.set(self._stem + key, "", ex=KEPT_SECONDS)
