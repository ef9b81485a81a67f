"""What processes leave in Redis for each other and for pages, under which key. Redis may lose all of it.

    sluice:<prefix>:<slave>:status        Status          what the apply does; JSON, a day
    sluice:<prefix>:<slave>:history       History         a sample a minute; list, 26 hours
    sluice:<prefix>:<slave>:events        Events          what happened; list, 14 days
    sluice:<prefix>:<slave>:changed       LastChanges     table → time of its last change; hash
    sluice:<prefix>:<slave>:lacks         Issues          what the slave lacks; JSON
    sluice:<prefix>:<slave>:load_started  LoadStarted     the load of new tables; JSON, a day
    sluice:<prefix>::lacks                Issues          what the master lacks; JSON
    sluice:<prefix>::items                ItemsState      findings of the last purge; JSON
    sluice:<prefix>::queue                QueueState      the size of ITEMS; JSON, a day
    sluice:<prefix>::queue:turn           QueueState      whether it was measured within a minute; flag
    sluice:<prefix>:failover              FailoverClaim   the failover under way; JSON
    sluice:<prefix>:locations             UsedLocations   where initial updates wrote files; set
    sluice:<prefix>:debugged              Debugged        table → time until which it is debugged; hash
    sluice:<prefix>:told:<notice>         Notified        whether the notice was sent; flag, half a year
    sluice::asked:<task instance>         Asked           whether the question was put; flag, 90 days

A key with two colons has an empty name in place of the slave's: no slave has one. The other keys are in the modules of
what they hold: `lease`, `gate`, `requests`, `redis_checkpoint`, `redo_state`, `verification_log`, `apply_query`. Every
method of these classes raises `StoreUnreachable`.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Generic, TypeVar

import redis

from sluice.configuration.resolve import ResolvedTable
from sluice.model.apply_status import ApplyStatus
from sluice.model.event import Event
from sluice.model.joining import StartedLoad
from sluice.model.location import Location
from sluice.model.names import Prefix, TableName
from sluice.model.purging import Backlog
from sluice.model.sample import Sample

DAY_SECONDS = 24 * 3600

Value = TypeVar("Value")


class RedisJson(Generic[Value]):
    """One value as JSON. `parsed`: makes the value of the text, or of None without one."""

    def __init__(
        self, client: "redis.Redis", key: str, parsed: Callable[[object], Value], seconds: int | None = None
    ) -> None:
        """`seconds`: until a stored value expires; None for never."""
        self.client, self.key, self._parsed, self._seconds = client, key, parsed, seconds

    def read(self) -> Value:
        return self._parsed(self.client.get(self.key))

    def store(self, value: object, *, only_first: bool = False) -> None:
        """Replaces the value. `only_first`: not if there is one."""
        self.client.set(self.key, json.dumps(value, default=str), ex=self._seconds, nx=only_first)

    def delete(self) -> None:
        self.client.delete(self.key)


class RedisList(Generic[Value]):
    """The latest values, oldest first, at most `most`; they expire `seconds` after the last one was added."""

    def __init__(
        self,
        client: "redis.Redis",
        key: str,
        parsed: Callable[[Sequence[object]], list[Value]],
        most: int,
        seconds: int,
    ) -> None:
        self.client, self.key, self._parsed, self._most, self._seconds = client, key, parsed, most, seconds

    def append(self, texts: Sequence[str]) -> None:
        if not texts:
            return
        with self.client.pipeline() as pipe:
            pipe.rpush(self.key, *texts)
            pipe.ltrim(self.key, -self._most, -1)
            pipe.expire(self.key, self._seconds)
            pipe.execute()

    def read(self, most: int | None = None) -> list[Value]:
        """The last values, at most `most`."""
        return self._parsed(self.client.lrange(self.key, -(most or self._most), -1))


class RedisFlag:
    """Something that is so or not, for at most `seconds`."""

    def __init__(self, client: "redis.Redis", key: str, seconds: int) -> None:
        self.client, self.key, self._seconds = client, key, seconds

    def note(self) -> bool:
        """Sets the flag; whether it was not set before."""
        return bool(self.client.set(self.key, "1", nx=True, ex=self._seconds))

    def noted(self) -> bool:
        return bool(self.client.exists(self.key))

    def forget(self) -> None:
        self.client.delete(self.key)


class Status(RedisJson[ApplyStatus]):
    """The last status of the apply of one slave. It may be stale; the checkpoint is authoritative."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        super().__init__(client, f"sluice:{prefix}:{slave}:status", self.parsed, DAY_SECONDS)

    def write(self, values: ApplyStatus) -> None:
        """Replaces the status."""
        self.store(values)

    def note(self, state: str, message: str) -> None:
        """Sets state and message, from another process than the apply."""
        self.write({**self.read(), "state": state, "message": message})

    @staticmethod
    def parsed(text: object) -> ApplyStatus:
        """Empty without a value."""
        return json.loads(str(text)) if text else {}


class History(RedisList[Sample]):
    """The samples of the apply of one slave, one a minute."""

    KEPT = 26 * 60
    """Minutes that are kept: a day and two hours."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        super().__init__(client, f"sluice:{prefix}:{slave}:history", self.parsed, self.KEPT, self.KEPT * 60)

    def add(self, sample: Sample) -> None:
        self.append([sample.text()])

    @staticmethod
    def parsed(texts: Sequence[object]) -> list[Sample]:
        return [Sample.parse(str(text)) for text in texts]


class Events(RedisList[Event]):
    """The events of one slave."""

    KEPT = 2_000

    def __init__(self, client: "redis.Redis", prefix: Prefix | str, slave: str):
        super().__init__(client, f"sluice:{prefix}:{slave}:events", self.parsed, self.KEPT, 14 * DAY_SECONDS)

    def add(self, events: Iterable[Event]) -> None:
        self.append([event.stored() for event in events])

    @staticmethod
    def parsed(texts: Sequence[object]) -> list[Event]:
        return [Event.parse(str(text)) for text in texts]


class LastChanges:
    """When each table of one slave last changed."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        self.client = client
        self.key = f"sluice:{prefix}:{slave}:changed"

    def note(self, tables: Mapping[TableName, float]) -> None:
        """`tables`: when the last change of each was committed, in seconds since the epoch."""
        if not tables:
            return
        self.client.hset(self.key, mapping={str(table): round(at, 3) for table, at in tables.items()})

    def read(self) -> dict[str, datetime]:
        """By table."""
        return self.parsed(self.client.hgetall(self.key))

    @staticmethod
    def parsed(values: Mapping[bytes | str, bytes | str]) -> dict[str, datetime]:
        return {str(table): datetime.fromtimestamp(float(at), UTC) for table, at in values.items()}


@dataclass(frozen=True)
class DefinitionGap:
    """One thing that the last comparison of definitions found lacking."""

    what: str
    """What is lacking and why, a sentence without full stop."""
    statement: str
    """SQL that fixes it, several statements with `;` between them; empty if a DAG fixes it."""
    since: str
    """When it was first found, ISO 8601, UTC. It begins again if Redis lost it."""

    @property
    def on_slave(self) -> str:
        """The finding of a slave, with what to run there."""
        statements = " ".join(self.statement.splitlines())
        return f"{self.what}. The slave has not followed this. Should that last, run there: {statements};"


class Issues(RedisJson[list[DefinitionGap]]):
    """The findings of a slave, or of the master."""

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str | None = None):
        super().__init__(client, f"sluice:{prefix}:{slave or ''}:lacks", self.parsed)

    def write(self, lacking: Iterable[tuple[str, str]], now: str) -> None:
        """Replaces all findings. `lacking`: `what` and `statement` of each. Known ones keep their `since`."""
        before = {(one.what, one.statement): one.since for one in self.read()}
        issues = [DefinitionGap(what, statement, before.get((what, statement), now)) for what, statement in lacking]
        self.store([asdict(one) for one in issues])

    @staticmethod
    def parsed(text: object) -> list[DefinitionGap]:
        """Empty if nothing is lacking, or nothing was compared."""
        return [DefinitionGap(**one) for one in json.loads(str(text))] if text else []


class LoadStarted(RedisJson[StartedLoad | None]):
    """The load of new tables that was started for one slave and has not ended.

    Without it pages say to start a load that runs already, and the slave refuses the second one. A deleted run never
    reports its end, so it expires.
    """

    def __init__(self, client: "redis.Redis", prefix: Prefix, slave: str):
        super().__init__(client, f"sluice:{prefix}:{slave}:load_started", self.parsed, DAY_SECONDS)

    def note(self, load: StartedLoad) -> None:
        """Stores a load; replaces an earlier one."""
        self.store({"run": load.run, "tables": [str(table) for table in load.tables]})

    def over(self, run: str) -> None:
        """Removes the load if it is of this run."""
        load = self.read()
        if load is not None and load.run == run:
            self.delete()

    @staticmethod
    def parsed(text: object) -> StartedLoad | None:
        """None if no load was started."""
        if not text:
            return None
        value = json.loads(str(text))
        return StartedLoad(value["run"], tuple(TableName.parse(table) for table in value["tables"]))


@dataclass(frozen=True)
class ItemsFindings:
    """Findings of the last purge of one replication."""

    warning: str = ""
    """How much of `items_limit` is used; empty below the share at which people are warned."""
    since: str = ""
    """When the warning was first found, ISO 8601, UTC."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Dropped slaves that do not answer, with the reason."""
    not_dropped: Mapping[str, str] = field(default_factory=dict)
    """Slaves that should be dropped and cannot be, with reason and remedy."""


class ItemsState(RedisJson[ItemsFindings]):
    """What the last purge of ITEMS found; the next one writes it again."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        super().__init__(client, f"sluice:{prefix}::items", self.parsed)

    def write(self, findings: ItemsFindings, now: str) -> None:
        """Stores the findings and sets `since`, which a lasting warning keeps."""
        since = (self.read().since or now) if findings.warning else ""
        self.store(asdict(replace(findings, since=since)))

    @staticmethod
    def parsed(text: object) -> ItemsFindings:
        """Empty if nothing was found."""
        return ItemsFindings(**json.loads(str(text))) if text else ItemsFindings()


@dataclass(frozen=True)
class MeasuredQueue:
    """ITEMS of a prefix at one moment."""

    at: str
    """ISO 8601, UTC."""
    changes: int
    bytes: int
    held_by: tuple[str, ...] = ()
    held_since: str | None = None
    resources: int | None = None
    """Version of DbResources."""

    @classmethod
    def parse(cls, text: object) -> "MeasuredQueue | None":
        """None without a value."""
        if not text:
            return None
        values = json.loads(str(text))
        return cls(**{**values, "held_by": tuple(values["held_by"])})


class QueueState(RedisJson[MeasuredQueue | None]):
    """The size of a master's ITEMS, as its applies last measured it; None if none did for a day."""

    EVERY_SECONDS = 60

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        super().__init__(client, f"sluice:{prefix}::queue", MeasuredQueue.parse, DAY_SECONDS)
        self._turn = RedisFlag(client, f"{self.key}:turn", self.EVERY_SECONDS)

    def measure(self, backlog: Callable[[], Backlog], version: Callable[[], int | None] = lambda: None) -> None:
        """Stores `backlog` and `version` of DbResources, unless another process did so within the last minute."""
        if not self._turn.note():
            return
        waiting = backlog()
        self.store(
            {
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "changes": waiting.changes,
                "bytes": waiting.bytes,
                "held_by": waiting.held_by,
                "held_since": waiting.held_since and waiting.held_since.isoformat(timespec="seconds"),
                "resources": version(),
            }
        )


class FailoverClaim(RedisJson[dict[str, str] | None]):
    """The failover of a prefix that is under way, so that no other one begins; None if none is.

    Advisory: the slave's row decides.
    """

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        super().__init__(client, f"sluice:{prefix}:failover", lambda text: json.loads(str(text)) if text else None)

    def take(self, failover_id: str, slave: str) -> dict[str, str]:
        """Claims the prefix; returns `id` and `slave` of the claim in force: this one, or an earlier failover's."""
        claim = {"id": failover_id, "slave": slave}
        self.store(claim, only_first=True)
        return self.read() or claim

    def give_back(self, failover_id: str) -> None:
        """Removes the claim if it is this failover's."""
        if (claim := self.read()) is not None and claim["id"] == failover_id:
            self.delete()


class Asked(RedisFlag):
    """Whether a task of Airflow has put its question to a person."""

    def __init__(self, client: "redis.Redis", task_instance: str):
        super().__init__(client, f"sluice::asked:{task_instance}", 90 * DAY_SECONDS)


class Notified:
    """The notices of one replication that were sent already."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self._client, self._prefix = client, prefix

    def of(self, notice: str) -> RedisFlag:
        """Whether the notice was sent. It is forgotten when its cause is fixed: the next occasion is sent again."""
        return RedisFlag(self._client, f"sluice:{self._prefix}:told:{notice}", 180 * DAY_SECONDS)


class Debugged:
    """The tables of one replication that a person has debugged for a while, beside those of the configuration.

    If Redis loses them, housekeeping ends the debugging earlier.
    """

    SECONDS = 3600.0
    """How long a table is debugged."""

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        self.key = f"sluice:{prefix}:debugged"

    def add(self, tables: Iterable[TableName], seconds: float = SECONDS) -> None:
        """Debugs `tables` from now on for so many seconds."""
        until = time.time() + seconds
        for table in tables:
            self.client.hset(self.key, json.dumps([table.schema, table.name]), str(until))

    def now(self) -> frozenset[TableName]:
        """The tables that are debugged now."""
        noted = self.client.hgetall(self.key)
        now = time.time()
        return frozenset(TableName(*json.loads(name)) for name, until in noted.items() if float(until) > now)

    def apply(self, tables: Iterable[ResolvedTable]) -> list[ResolvedTable]:
        """The configured tables, with `debug` for those that are debugged now."""
        debugged = self.now()
        return [replace(one, debug=True) if one.table in debugged else one for one in tables]


class UsedLocations:
    """Locations below the configured ones where initial updates of one replication wrote files, for housekeeping.

    If Redis loses them, folders there stay until a person removes them.
    """

    def __init__(self, client: "redis.Redis", prefix: Prefix):
        self.client = client
        self.key = f"sluice:{prefix}:locations"

    def add(self, location: Location) -> None:
        self.client.sadd(self.key, str(location))

    def read(self) -> list[str]:
        """The locations as texts, sorted."""
        return sorted(str(text) for text in self.client.smembers(self.key))


def forget(client: "redis.Redis", prefix: Prefix, slave: str | None = None) -> int:
    """Deletes the keys of a replication (`slave`: None) or of one slave; returns how many."""
    stem = f"sluice:{prefix}:" + (f"{slave}:" if slave is not None else "")
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", stem) + "*"
    deleted = 0
    for key in list(client.scan_iter(match=pattern, count=1000)):
        deleted += int(str(client.delete(key)))
    return deleted
