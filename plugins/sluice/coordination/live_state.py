"""Reads everything that Redis has about many pairs in one round trip."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import redis

from sluice.coordination import gate, lease, redo_state, verification_log
from sluice.coordination.gate import Closure, Gate
from sluice.coordination.lease import Holder
from sluice.coordination.records import (
    DefinitionGap,
    Events,
    History,
    Issues,
    ItemsFindings,
    ItemsState,
    LastChanges,
    LoadStarted,
    MeasuredQueue,
    QueueState,
    Status,
)
from sluice.coordination.redo_state import RedoState, RedoStatus
from sluice.coordination.verification_log import LastComparison, VerificationLog
from sluice.model.apply_status import ApplyStatus
from sluice.model.event import Event
from sluice.model.joining import StartedLoad
from sluice.model.names import Prefix
from sluice.model.sample import Sample, Samples

HOUR = 60


@dataclass(frozen=True)
class LiveSlave:
    """Redis's content about one pair. Everything may be missing."""

    status: ApplyStatus = field(default_factory=ApplyStatus)
    """The apply's last status, see `sluice.coordination.records`."""
    holder: Holder | None = None
    """The process that applies."""
    closures: Sequence[Closure] = ()
    tables: Mapping[str, LastComparison] = field(default_factory=dict)
    """Each table with its last comparison."""
    issues: Sequence[DefinitionGap] = ()
    not_captured: Sequence[DefinitionGap] = ()
    """Tables of the master that no slave has, since nothing captures them."""
    samples: Sequence[Sample] = ()
    """Samples of the last minutes, oldest first."""
    started: StartedLoad | None = None
    """A load of new tables that was started and has not ended."""

    @property
    def says_too_little(self) -> bool:
        """Whether its database has to be asked what the slave is: no apply writes its status."""
        return self.holder is None or not self.status.get("state")


@dataclass(frozen=True)
class Past:
    """Redis's content about the past of one pair."""

    samples: Sequence[Sample] = ()
    events: Sequence[Event] = ()
    changed: Mapping[str, datetime] = field(default_factory=dict)
    """Time of each table's last change."""


@dataclass(frozen=True)
class LiveMaster:
    """Redis's content about one replication."""

    items: ItemsFindings = field(default_factory=ItemsFindings)
    """Findings of the last purge."""
    issues: Sequence[DefinitionGap] = ()
    """Tables that are not captured."""
    queue: MeasuredQueue | None = None
    redo: RedoStatus | None = None
    """Status of the capture of redo logs; None without one."""


@dataclass(frozen=True)
class LiveState:
    """Redis's content about the requested replications."""

    masters: Mapping[Prefix, LiveMaster] = field(default_factory=dict)
    slaves: Mapping[tuple[Prefix, str], LiveSlave] = field(default_factory=dict)

    def master(self, prefix: Prefix) -> LiveMaster:
        return self.masters.get(prefix, LiveMaster())

    def slave(self, prefix: Prefix, slave: str) -> LiveSlave:
        return self.slaves.get((prefix, slave), LiveSlave())


def read(
    client: "redis.Redis",
    pairs: Mapping[Prefix, Collection[str]],
    minutes: int = HOUR,
    before: LiveState | None = None,
    former: LiveState | None = None,
) -> LiveState:
    """`pairs`: slaves by prefix. `minutes`: samples of each slave. `before`: samples and comparisons are taken from
    there instead, which are most of the content and change once a minute at most. `former`: samples that are as there
    stay the same objects, so that their curves are not drawn again. Raises `StoreUnreachable`."""
    texts: list[str] = []
    with client.pipeline(transaction=False) as pipe:
        for prefix, slaves in pairs.items():
            texts += [ItemsState(client, prefix).key, Issues(client, prefix).key, QueueState(client, prefix).key]
            texts.append(RedoState(client, prefix).status_key)
            for slave in slaves:
                texts += [Status(client, prefix, slave).key, lease.key(prefix, slave)]
                texts += [Issues(client, prefix, slave).key, LoadStarted(client, prefix, slave).key]
                pipe.hgetall(Gate(client, prefix, slave).key)
                if before is None:
                    pipe.hgetall(VerificationLog(client, prefix, slave).key)
                    pipe.lrange(History(client, prefix, slave).key, -minutes, -1)
        # All texts at once: for 500 slaves a command a key would take twice the time.
        pipe.mget(texts or [""])
        *others, values = pipe.execute()
    answers, texts_left = iter(others), iter(values)
    masters, live = {}, {}
    for prefix, slaves in pairs.items():
        items, lacking, queue, redo = (next(texts_left) for _ in range(4))
        masters[prefix] = LiveMaster(
            ItemsState.parsed(items), Issues.parsed(lacking), MeasuredQueue.parse(queue), redo_state.parsed(redo)
        )
        for slave in slaves:
            status_text, holder, lacking, load = (next(texts_left) for _ in range(4))
            closed = next(answers)
            if before is None:
                tables, samples = verification_log.parsed(next(answers)), History.parsed(next(answers))
                same = former.slave(prefix, slave).samples if former else ()
                earlier = LiveSlave(tables=tables, samples=same if list(same) == samples else Samples(samples))
            else:
                earlier = before.slave(prefix, slave)
            live[prefix, slave] = LiveSlave(
                Status.parsed(status_text),
                lease.parsed(holder),
                gate.parsed(closed),
                earlier.tables,
                Issues.parsed(lacking),
                masters[prefix].issues,
                earlier.samples,
                LoadStarted.parsed(load),
            )
    return LiveState(masters, live)


def past(client: "redis.Redis", prefix: Prefix, slave: str, minutes: int) -> Past:
    """The past of one pair, with up to `minutes` samples. Raises `StoreUnreachable`."""
    with client.pipeline(transaction=False) as pipe:
        pipe.lrange(History(client, prefix, slave).key, -minutes, -1)
        pipe.lrange(Events(client, prefix, slave).key, -Events.KEPT, -1)
        pipe.hgetall(LastChanges(client, prefix, slave).key)
        samples, happened, changed = pipe.execute()
    return Past(History.parsed(samples), Events.parsed(happened), LastChanges.parsed(changed))
