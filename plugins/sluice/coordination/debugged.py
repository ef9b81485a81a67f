"""Tables that a person has their capture debugged of for a while, beside those of the configuration.

Redis may lose them: then housekeeping ends the debugging earlier.
"""

import json
import time
from collections.abc import Iterable
from dataclasses import replace

import redis

from sluice.configuration.resolve import ResolvedTable
from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix, TableName

SECONDS = 3600.0
"""How long a table is debugged."""


class Debugged:
    """The tables of one replication. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        self.key = f"sluice:{prefix}:debugged"

    def add(self, tables: Iterable[TableName], seconds: float = SECONDS) -> None:
        """Debugs `tables` from now on for so many seconds."""
        until = time.time() + seconds
        with classified():
            for table in tables:
                self.client.hset(self.key, json.dumps([table.schema, table.name]), str(until))

    def now(self) -> frozenset[TableName]:
        """The tables that are debugged now."""
        with classified():
            noted = self.client.hgetall(self.key)
        now = time.time()
        return frozenset(TableName(*json.loads(name)) for name, until in noted.items() if float(until) > now)

    def apply(self, tables: Iterable[ResolvedTable]) -> list[ResolvedTable]:
        """The configured tables, with `debug` for those that are debugged now."""
        debugged = self.now()
        return [replace(one, debug=True) if one.table in debugged else one for one in tables]
