"""The load of new tables that was started for a slave and is not over, for people and pages.

Redis may lose it: then people are told to start what runs already, and the slave refuses the second one.
"""

import json

import redis

from sluice.coordination.redis_store import classified
from sluice.model.joining import StartedLoad
from sluice.model.names import Prefix, TableName

EXPIRES_SECONDS = 24 * 3600
"""A run that was deleted never says that it is over."""


class LoadStarted:
    """Of one slave. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:load_started"

    def note(self, load: StartedLoad) -> None:
        """Replaces an earlier one."""
        value = {"run": load.run, "tables": [str(table) for table in load.tables]}
        with classified():
            self.client.set(self.key, json.dumps(value), ex=EXPIRES_SECONDS)

    def over(self, run: str) -> None:
        """Nothing is started any more, unless that is another run."""
        found = self.read()
        if found is not None and found.run == run:
            with classified():
                self.client.delete(self.key)

    def read(self) -> StartedLoad | None:
        """None where nothing was started."""
        with classified():
            return parsed(self.client.get(self.key))


def parsed(text: object) -> StartedLoad | None:
    """From what Redis has."""
    if not text:
        return None
    value = json.loads(str(text))
    return StartedLoad(value["run"], tuple(TableName.parse(table) for table in value["tables"]))
