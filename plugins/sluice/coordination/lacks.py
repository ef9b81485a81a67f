"""What the last comparison of definitions found that a person should know, for pages and notices.

Redis may lose it: then it counts as first seen when it is seen next.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import redis

from sluice.coordination.redis_store import classified
from sluice.model.names import Prefix


@dataclass(frozen=True)
class Found:
    """One thing that is lacking."""

    what: str
    """What is lacking and why, a sentence without full stop."""
    statement: str
    """SQL that mends it, several statements with `;` between them; empty where a DAG does."""
    since: str
    """When it was seen first, ISO 8601, UTC."""

    @property
    def on_slave(self) -> str:
        """Of a slave: what to run there, too."""
        statements = " ".join(self.statement.splitlines())
        return f"{self.what}. The slave does not follow this by itself. Run there: {statements};"


class Lacks:
    """Of a slave, or of the master. Every method raises `StoreUnreachable`."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str | None = None):
        self.client = client
        # Between two colons: no slave is called so.
        self.key = f"sluice:{prefix}:{slave}:lacks" if slave is not None else f"sluice:{prefix}::lacks"

    def write(self, lacking: Iterable[tuple[str, str]], now: str) -> None:
        """`lacking`: `what` and `statement` of all there is. What was there before keeps its `since`."""
        before = {(one.what, one.statement): one.since for one in self.read()}
        found = [Found(what, statement, before.get((what, statement), now)) for what, statement in lacking]
        with classified():
            self.client.set(self.key, json.dumps([asdict(one) for one in found]))

    def read(self) -> list[Found]:
        """Empty where nothing lacks, or nothing was compared."""
        with classified():
            return parsed(self.client.get(self.key))


def parsed(text: object) -> list[Found]:
    """From what Redis has."""
    return [Found(**one) for one in json.loads(str(text))] if text else []
