"""Findings of the last purge of ITEMS, for pages and notices. Redis may lose them: the next purge writes them again."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix


@dataclass(frozen=True)
class ItemsFindings:
    """Findings of one replication."""

    warning: str = ""
    """How much of `items_limit` is used; empty below the share at which people are warned."""
    since: str = ""
    """When the warning was first found, ISO 8601, UTC."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Dropped slaves that do not answer, with the reason."""
    not_dropped: Mapping[str, str] = field(default_factory=dict)
    """Slaves that should be dropped and cannot be, with reason and remedy."""


class ItemsState:
    """Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        # Two colons: no name of a slave is empty.
        self.key = f"sluice:{prefix}::items"

    def write(self, findings: ItemsFindings, now: str) -> None:
        """Stores the findings and sets `since`, which a lasting warning keeps."""
        since = (self.read().since or now) if findings.warning else ""
        with classified():
            self.client.set(self.key, json.dumps(asdict(replace(findings, since=since))))

    def read(self) -> ItemsFindings:
        """Empty if nothing was found."""
        with classified():
            return parsed(self.client.get(self.key))


def parsed(text: object) -> ItemsFindings:
    """Parses the value in Redis."""
    return ItemsFindings(**json.loads(str(text))) if text else ItemsFindings()
