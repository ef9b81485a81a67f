"""The load of new tables that was started for a slave and has not ended, for pages and notices.

Redis may lose it: then pages say to start a load that runs already, and the slave refuses the second one.
"""

import json

import redis

from sluice.coordination.redis_store import classified
from sluice.model.joining import StartedLoad
from sluice.model.names import Prefix, TableName

EXPIRES_SECONDS = 24 * 3600
"""A deleted run never reports its end."""


class LoadStarted:
    """The started load of one slave. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:load_started"

    def note(self, load: StartedLoad) -> None:
        """Stores a load; replaces an earlier one."""
        value = {"run": load.run, "tables": [str(table) for table in load.tables]}
        with classified():
            self.client.set(self.key, json.dumps(value), ex=EXPIRES_SECONDS)

    def over(self, run: str) -> None:
        """Removes the load if it is of this run."""
        load = self.read()
        if load is not None and load.run == run:
            with classified():
                self.client.delete(self.key)

    def read(self) -> StartedLoad | None:
        """None if no load was started."""
        with classified():
            return parsed(self.client.get(self.key))


def parsed(text: object) -> StartedLoad | None:
    """Parses the value in Redis."""
    if not text:
        return None
    value = json.loads(str(text))
    return StartedLoad(value["run"], tuple(TableName.parse(table) for table in value["tables"]))
