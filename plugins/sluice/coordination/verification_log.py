"""What the last comparison of each table of a slave found, and through when it was last found identical.

For people, pages and notices. Redis may lose it: `restore` gives back what somebody else has kept.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix

LAST = ("since", "time", "position", "rows")
"""What stays when a later comparison finds a table other than identical."""

Seen = dict[str, Any]
"""Of one table:

| key | holds |
|---|---|
| `since` | when it was first known, ISO 8601, UTC |
| `outcome`, `checked`, `run` | of the last comparison: its outcome, when it ended, the folder of its report |
| `differ`, `reason` | then: how many rows differ; why it could not be compared |
| `time`, `position`, `rows` | of the last one that found it identical: the master's clock at the position, its text |
"""


class VerificationLog:
    """One entry a table. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:verified"

    def write(self, table: str, seen: Seen) -> None:
        """Keeps what a comparison found; of a table that is not identical, `LAST` stays what it was."""
        with classified():
            before = self.client.hget(self.key, table)
            known = json.loads(str(before)) if before else {}
            kept = {name: known[name] for name in LAST if name in known}
            if seen.get("outcome") != "identical":
                seen = {name: value for name, value in seen.items() if name not in LAST}
            self.client.hset(self.key, table, json.dumps({**kept, **seen}))

    def expect(self, tables: Iterable[str], now: str) -> None:
        """These tables are to be verified, and no others: new ones are known from `now` on, others forgotten."""
        wanted = set(tables)
        with classified():
            for table in wanted:
                self.client.hsetnx(self.key, table, json.dumps({"since": now}))
            if others := [str(table) for table in self.client.hkeys(self.key) if str(table) not in wanted]:
                self.client.hdel(self.key, *others)

    def restore(self, kept: Mapping[str, Seen]) -> None:
        """What Redis has lost of `kept` comes back; what was found since stays."""
        with classified():
            for table, seen in kept.items():
                before = self.client.hget(self.key, table)
                known = json.loads(str(before)) if before else None
                if known is None:
                    self.client.hset(self.key, table, json.dumps(seen))
                elif "time" not in known and "time" in seen:
                    last = {name: seen[name] for name in LAST if name in seen}
                    self.client.hset(self.key, table, json.dumps({**known, **last}))

    def read(self) -> dict[str, Seen]:
        """By table; empty when none is known."""
        with classified():
            return parsed(self.client.hgetall(self.key))


def parsed(found: Mapping[bytes | str, bytes | str]) -> dict[str, Seen]:
    """From what Redis has, by table."""
    return {str(table): json.loads(str(text)) for table, text in sorted(found.items(), key=lambda entry: str(entry[0]))}
