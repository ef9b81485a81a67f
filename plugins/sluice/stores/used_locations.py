"""Where initial updates of a replication wrote files below what the configuration names; housekeeping looks there.

Redis may lose it: then folders at those places stay until a person removes them.
"""

import redis

from sluice.domain.location import Location
from sluice.domain.names import Prefix
from sluice.stores.redis_store import classified


class UsedLocations:
    """Of one replication. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        self.key = f"sluice:{prefix}:locations"

    def add(self, location: Location) -> None:
        """Files are written there."""
        with classified():
            self.client.sadd(self.key, str(location))

    def read(self) -> list[str]:
        """As texts, sorted."""
        with classified():
            return sorted(str(text) for text in self.client.smembers(self.key))
