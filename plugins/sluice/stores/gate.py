"""The gate of a slave: a set of named closures, open only when it is empty."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import redis

from sluice.domain.names import Prefix
from sluice.stores.redis_store import classified

INITIAL_UPDATE = "initial update"
ADMIN = "admin"
ERROR = "error"


@dataclass(frozen=True)
class Closure:
    """One reason why the gate is closed."""

    name: str
    by: str
    reason: str
    at: str
    """ISO 8601, UTC."""

    def text(self) -> str:
        """As it is stored."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        return f"{self.name} ({self.by}, {self.at[11:16]} UTC): {self.reason}"


class Gate:
    """Closes and opens the way to one slave. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:gate"

    def close(self, name: str, by: str, reason: str) -> Closure:
        """Adds a closure, or replaces the one of that name. `ADMIN`: see `sluice.apply.hold`."""
        closure = Closure(name, by, reason, datetime.now(UTC).isoformat(timespec="seconds"))
        with classified():
            self.client.hset(self.key, name, closure.text())
        return closure

    def restore(self, text: str) -> bool:
        """Puts a closure back that Redis has lost; False where there is one of that name."""
        closure = Closure(**json.loads(text))
        with classified():
            return bool(self.client.hsetnx(self.key, closure.name, text))

    def open(self, name: str) -> bool:
        """Removes one closure; False when it was not there. Other closures keep the gate closed."""
        with classified():
            return bool(self.client.hdel(self.key, name))

    def closures(self) -> list[Closure]:
        """All reasons why the gate is closed, by name; empty when it is open."""
        with classified():
            values = self.client.hgetall(self.key)
        return sorted((Closure(**json.loads(value)) for value in values.values()), key=lambda closure: closure.name)
