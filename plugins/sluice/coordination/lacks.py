"""Findings of the last comparison of definitions, for pages and notices.

Redis may lose them: then `since` begins again.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix


@dataclass(frozen=True)
class KnownLack:
    """One thing that is lacking."""

    what: str
    """What is lacking and why, a sentence without full stop."""
    statement: str
    """SQL that mends it, several statements with `;` between them; empty if a DAG mends it."""
    since: str
    """When it was first found, ISO 8601, UTC."""

    @property
    def on_slave(self) -> str:
        """The finding of a slave, with what to run there."""
        statements = " ".join(self.statement.splitlines())
        return f"{self.what}. The slave has not followed this. Should that last, run there: {statements};"


class Lacks:
    """The findings of a slave, or of the master. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str | None = None):
        self.client = client
        # Two colons: no name of a slave is empty.
        self.key = f"sluice:{prefix}:{slave}:lacks" if slave is not None else f"sluice:{prefix}::lacks"

    def write(self, lacking: Iterable[tuple[str, str]], now: str) -> None:
        """Replaces all findings. `lacking`: `what` and `statement` of each. Known ones keep their `since`."""
        before = {(one.what, one.statement): one.since for one in self.read()}
        lacks = [KnownLack(what, statement, before.get((what, statement), now)) for what, statement in lacking]
        with classified():
            self.client.set(self.key, json.dumps([asdict(one) for one in lacks]))

    def read(self) -> list[KnownLack]:
        """Empty if nothing is lacking, or nothing was compared."""
        with classified():
            return parsed(self.client.get(self.key))


def parsed(text: object) -> list[KnownLack]:
    """Parses the value in Redis."""
    return [KnownLack(**one) for one in json.loads(str(text))] if text else []
