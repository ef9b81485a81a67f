"""The checkpoint of a slave in Redis, for slaves with `checkpoint: redis`."""

import redis

from sluice.database import registry
from sluice.model.checkpoint import Stored
from sluice.model.names import Prefix

_WRITE = """
local old = redis.call('HGET', KEYS[1], 'epoch')
if old and tonumber(old) and tonumber(old) > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'anchor', ARGV[2], 'position', ARGV[3], 'changes', ARGV[4])
return 1
"""
"""Does nothing if the stored epoch is later: a superseded apply must not overwrite its successor's checkpoint.

The field `anchor` is the fallback position, under the name of earlier releases.
"""


class StoredCheckpoint:
    """Reads and writes the position of one slave. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:checkpoint"

    def write(self, stored: Stored) -> bool:
        """False if an apply with a later epoch has written."""
        values = (str(stored.epoch), stored.fallback.text(), stored.position.text(), str(stored.changes))
        return bool(self.client.eval(_WRITE, 1, self.key, *values))

    def read(self) -> Stored | None:
        """None without a readable checkpoint: then the slave's own row decides."""
        values = self.client.hgetall(self.key)
        try:
            return Stored(
                int(values["epoch"]),
                registry.parse_position(str(values["anchor"])),
                registry.parse_position(str(values["position"])),
                int(values["changes"]),
            )
        except (KeyError, ValueError, TypeError):
            return None

    def forget(self) -> None:
        """Deletes it: the slave's own row decides from now on."""
        self.client.delete(self.key)
