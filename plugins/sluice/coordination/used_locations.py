"""Where initial updates of a replication wrote files below what the configuration names; housekeeping looks there.

Redis may lose it: then folders at those places stay until a person removes them.
"""

import redis

from sluice.coordination.redis_store import classified
from sluice.model.location import Location
from sluice.model.names import Prefix


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
