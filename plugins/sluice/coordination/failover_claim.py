"""The failover of a replication that is under way, so that no other one begins. Advisory: the slave's row decides."""

import json

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix


class FailoverClaim:
    """The claim of one prefix. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        self.key = f"sluice:{prefix}:failover"

    def take(self, failover_id: str, slave: str) -> dict[str, str]:
        """Claims the prefix; returns `id` and `slave` of the claim in force: this one, or an earlier failover's."""
        with classified():
            self.client.set(self.key, json.dumps({"id": failover_id, "slave": slave}), nx=True)
        return self.read() or {"id": failover_id, "slave": slave}

    def read(self) -> dict[str, str] | None:
        """None if no failover is under way."""
        with classified():
            text = self.client.get(self.key)
        claim: dict[str, str] | None = json.loads(str(text)) if text else None
        return claim

    def give_back(self, failover_id: str) -> None:
        """Removes the claim if it is this failover's."""
        if (claim := self.read()) is not None and claim["id"] == failover_id:
            with classified():
                self.client.delete(self.key)
