"""The last comparison of each table of a slave, and the time through which it was last found identical.

For pages and notices. Redis may lose it: `restore` restores a copy.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypedDict, cast

import redis

from sluice.model.names import Prefix

LAST = ("since", "time", "position", "rows")
"""Keys that stay if a later comparison does not find the table identical."""


class LastComparison(TypedDict, total=False):
    """The entry of one table. Times are ISO 8601, UTC."""

    since: str
    """When the table was first known."""
    outcome: str
    checked: str
    """The end of the last comparison."""
    run: str
    """The folder of its report."""
    differ: int
    """How many rows differ."""
    reason: str
    """Why it could not compare."""
    time: str
    """The time of the last identical comparison: the master's clock at the position."""
    position: str
    rows: int


class VerificationLog:
    """The entries of one slave. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:verified"

    def write(self, table: str, seen: LastComparison) -> None:
        """Stores a comparison. If the table is not identical, the keys `LAST` keep their values."""
        before = self.client.hget(self.key, table)
        stored = json.loads(str(before)) if before else {}
        kept = {name: stored[name] for name in LAST if name in stored}
        if seen.get("outcome") != "identical":
            seen = cast(LastComparison, {name: value for name, value in seen.items() if name not in LAST})
        self.client.hset(self.key, table, json.dumps({**kept, **seen}))

    def expect(self, tables: Iterable[str], now: str) -> None:
        """Sets which tables are to be verified: new ones get `since` = `now`, others are deleted."""
        configured = set(tables)
        for table in configured:
            self.client.hsetnx(self.key, table, json.dumps({"since": now}))
        if others := [str(table) for table in self.client.hkeys(self.key) if str(table) not in configured]:
            self.client.hdel(self.key, *others)

    def restore(self, kept: Mapping[str, LastComparison]) -> None:
        """Restores what Redis has lost of the copy `kept`; later comparisons stay."""
        for table, seen in kept.items():
            before = self.client.hget(self.key, table)
            stored = json.loads(str(before)) if before else None
            if stored is None:
                self.client.hset(self.key, table, json.dumps(seen))
            elif "time" not in stored and "time" in seen:
                last = {name: value for name, value in seen.items() if name in LAST}
                self.client.hset(self.key, table, json.dumps({**stored, **last}))

    def read(self) -> dict[str, LastComparison]:
        """The entries by table."""
        return parsed(self.client.hgetall(self.key))


def parsed(seen_tables: Mapping[bytes | str, bytes | str]) -> dict[str, LastComparison]:
    """Parses the value in Redis, by table."""
    return {str(table): _entry(str(text)) for table, text in sorted(seen_tables.items(), key=lambda one: str(one[0]))}


@lru_cache(maxsize=65_536)
def _entry(text: str) -> LastComparison:
    """Nobody changes it: pages read the same ones again and again."""
    seen: LastComparison = json.loads(text)
    return seen
