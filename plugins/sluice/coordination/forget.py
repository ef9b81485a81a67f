"""Deletes the keys of a replication, or of one of its slaves, from Redis."""

import re

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix


def forget(client: "redis.Redis", prefix: Prefix, slave: str | None = None) -> int:
    """Returns how many keys were deleted. `slave`: None for the whole replication. Raises `StoreUnreachable`."""
    stem = f"sluice:{prefix}:" + (f"{slave}:" if slave is not None else "")
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", stem) + "*"
    deleted = 0
    with classified():
        for key in list(client.scan_iter(match=pattern, count=1000)):
            deleted += int(str(client.delete(key)))
    return deleted
