"""The time of the last change of each table of a slave, for pages. Redis may lose it."""

from collections.abc import Mapping
from datetime import UTC, datetime

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix, TableName


class LastChanges:
    """The times of one slave. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:changed"

    def note(self, tables: Mapping[TableName, float]) -> None:
        """`tables`: when the last change of each was committed, in seconds since the epoch."""
        if not tables:
            return
        with classified():
            self.client.hset(self.key, mapping={str(table): round(at, 3) for table, at in tables.items()})

    def read(self) -> dict[str, datetime]:
        """By table."""
        with classified():
            return parsed(self.client.hgetall(self.key))


def parsed(values: Mapping[bytes | str, bytes | str]) -> dict[str, datetime]:
    """Parses the value in Redis."""
    return {str(table): datetime.fromtimestamp(float(at), UTC) for table, at in values.items()}
