"""Through which position each table of a slave was last found identical with the master's, for people and pages."""

import json
from typing import Any

import redis

from sluice.domain.names import Prefix
from sluice.stores.redis_store import classified


class Verified:
    """One entry a table. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:verified"

    def write(self, table: str, values: dict[str, Any]) -> None:
        """`values`: `outcome`, `time` (the master's clock at the position), `position`, `rows`.

        Of a table that is not identical, `time`, `position` and `rows` stay what they were.
        """
        with classified():
            before = self.client.hget(self.key, table)
            known = json.loads(str(before)) if before else {}
            if values.get("outcome") != "identical":
                values = {"outcome": values.get("outcome")}
            self.client.hset(self.key, table, json.dumps({**known, **values}))

    def read(self) -> dict[str, dict[str, Any]]:
        """By table; empty when none was ever verified."""
        with classified():
            found = self.client.hgetall(self.key)
        return {str(table): json.loads(str(text)) for table, text in sorted(found.items())}
