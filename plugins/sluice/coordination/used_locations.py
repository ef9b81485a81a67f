"""Locations below the configured ones where initial updates wrote files, for housekeeping.

Redis may lose them: then folders there stay until a person removes them.
"""

import redis

from sluice.coordination.redis_store import classified
from sluice.model.location import Location
from sluice.model.names import Prefix


class UsedLocations:
    """The locations of one replication. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        self.key = f"sluice:{prefix}:locations"

    def add(self, location: Location) -> None:
        with classified():
            self.client.sadd(self.key, str(location))

    def read(self) -> list[str]:
        """The locations as texts, sorted."""
        with classified():
            return sorted(str(text) for text in self.client.smembers(self.key))
