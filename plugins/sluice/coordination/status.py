"""The status that an apply writes about itself, for pages. It may be stale; the checkpoint is authoritative."""

import json

import redis

from sluice.coordination.redis_store import classified
from sluice.model.apply_status import ApplyStatus
from sluice.model.names import Prefix

EXPIRES_SECONDS = 24 * 3600


class Status:
    """The last status of the apply of one slave."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:status"

    def write(self, values: ApplyStatus) -> None:
        """Replaces the status. Raises `StoreUnreachable`."""
        with classified():
            self.client.set(self.key, json.dumps(values, default=str), ex=EXPIRES_SECONDS)

    def note(self, state: str, message: str) -> None:
        """Sets state and message, from another process than the apply. Raises `StoreUnreachable`."""
        self.write({**self.read(), "state": state, "message": message})

    def read(self) -> ApplyStatus:
        """The last status; empty if there is none. Raises `StoreUnreachable`."""
        with classified():
            return parsed(self.client.get(self.key))


def parsed(text: object) -> ApplyStatus:
    """Parses the value in Redis."""
    return json.loads(str(text)) if text else {}
