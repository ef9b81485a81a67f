"""When each table of a slave was changed last, for pages. Redis may lose it."""

from collections.abc import Mapping
from datetime import UTC, datetime

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix, TableName


class LastChanges:
    """One time a table. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:changed"

    def note(self, tables: Mapping[TableName, float]) -> None:
        """`tables`: when a change of each was committed last, seconds since 1970."""
        if not tables:
            return
        with classified():
            self.client.hset(self.key, mapping={str(table): round(at, 3) for table, at in tables.items()})

    def read(self) -> dict[str, datetime]:
        """By table."""
        with classified():
            return parsed(self.client.hgetall(self.key))


def parsed(values: Mapping[bytes | str, bytes | str]) -> dict[str, datetime]:
    """From what Redis has."""
    return {str(table): datetime.fromtimestamp(float(at), UTC) for table, at in values.items()}
