"""Queries a slave's or a master's database for what is not in Redis.

Each query has a short time-out: a database that is down costs some seconds of a thread of the monitor, and the page
says so. Concurrent pages share one query. While a database does not answer, its page shows the former answer.

The monitor reads in its own threads, so that neither the event loop of Airflow's API server nor the threads of its
other pages wait for a database or for Redis.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Generic, TypeVar

import redis

from sluice.airflow import connections
from sluice.apply import waiting_changes
from sluice.apply.waiting_changes import Waiting, WaitingChange
from sluice.configuration.model import Replication
from sluice.control.checkpoint import CheckpointStore
from sluice.control.rejects import RejectStore
from sluice.database.registry import master_of, reach
from sluice.database.rows import Estimate
from sluice.database.session import Session
from sluice.errors import SluiceError
from sluice.load.progress import Progress, progress
from sluice.load.update import Update
from sluice.model.broadcast import Broadcast
from sluice.model.change import Action
from sluice.model.checkpoint import Checkpoint
from sluice.model.connection import ConnectionInfo
from sluice.model.failover import Switch, who
from sluice.model.mask import HIDDEN, Mask
from sluice.model.names import Prefix, TableName
from sluice.model.purging import Backlog
from sluice.model.reject import Reject
from sluice.model.slave_state import SlaveState
from sluice.model.vendors import VENDORS
from sluice.operate import broadcast
from sluice.pair import Pair
from sluice.verify.definition_gaps import not_captured

APPLICATION = "sluice monitor"
LOOK_SECONDS = 3
"""Time-out of a connection, and of each statement."""
FRESH_SECONDS = 2.0
REJECTS_SHOWN = 50
QUERIES_SHOWN = 20
WAITING_SHOWN = 100

THREADS = ThreadPoolExecutor(8, thread_name_prefix="sluice-monitor")
ASKING = ThreadPoolExecutor(8, thread_name_prefix="sluice-monitor-asks")
"""Ask databases for pages that do not wait until the last one has answered."""
FIRST_SECONDS = 1.0
"""How long a page of many slaves waits for databases that never answered before."""
AGAIN_SECONDS = 10.0
"""How often a database is asked for such pages."""
LATELY_SECONDS = 30.0
"""An older answer was not asked for by the last pages."""

Seen = TypeVar("Seen")
Made = TypeVar("Made")


async def in_thread(work: Callable[[], Made]) -> Made:
    """Runs blocking work in a thread of the monitor."""
    return await asyncio.get_running_loop().run_in_executor(THREADS, work)


@dataclass(frozen=True)
class SlaveData:
    """Read from the slave's database."""

    checkpoint: Checkpoint | None = None
    progress: Progress | None = None
    """Of a load that is under way."""
    rejects: Sequence[Reject] = ()
    """The first open rejects."""
    rejected: int = 0
    switches: Sequence[Switch] = ()
    """Who was the master when."""
    who: str = ""
    """What the database was in the last of them, in words."""


@dataclass(frozen=True)
class MasterTable:
    """A configured table on the master."""

    table: TableName
    fault: str
    """Why its changes are lost; empty if they are captured."""
    rows: int | None


@dataclass(frozen=True)
class MasterData:
    """Read from the master's database."""

    version: int | None = None
    """Of DbResources; None if nothing is installed."""
    current: bool = False
    tables: Sequence[MasterTable] = ()
    backlog: Backlog | None = None
    switches: Sequence[Switch] = ()
    """Who was the master when."""


@dataclass(frozen=True)
class LastAnswer(Generic[Seen]):
    """The last answer, its time, and why there is no newer one."""

    seen: Seen | None
    at: datetime | None
    trouble: str = ""


Answers = Mapping[tuple[Prefix, str], LastAnswer[SlaveData]]
NO_ANSWER: LastAnswer[SlaveData] = LastAnswer(None, None)


@dataclass
class _Place(Generic[Seen]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    asked: bool = False
    """Whether a thread is about to ask."""
    answer: LastAnswer[Seen] = field(default_factory=lambda: LastAnswer(None, None))
    read_at: float = float("-inf")


class Databases:
    """Queries databases, and remembers their last answers."""

    def __init__(self) -> None:
        self._slaves: dict[tuple[str, str], _Place[SlaveData]] = {}
        self._masters: dict[str, _Place[MasterData]] = {}
        self._queries: dict[str, _Place[list[Broadcast]]] = {}

    async def slave(self, replication: Replication, name: str) -> LastAnswer[SlaveData]:
        cache = self._slaves.setdefault((str(replication.prefix), name), _Place())
        return await in_thread(lambda: _again(cache, lambda: _slave(replication, name)))

    def answers(self, pairs: Sequence[tuple[Replication, str]], now: Collection[tuple[str, str]] = ()) -> Answers:
        """The last answers of slaves' databases. Those that are old are asked again; it waits only for those that were
        not asked lately, since their answers may be of another outage, for those of `now`, and for those that were
        SWITCHING: their failover may be through. It waits for a moment. Blocks."""
        caches = {
            (one.prefix, name): (self._slaves.setdefault((str(one.prefix), name), _Place()), one) for one, name in pairs
        }
        first = []
        for (_, name), (cache, replication) in caches.items():
            seen = cache.answer.seen.checkpoint if cache.answer.seen else None
            switched = seen is not None and seen.state is SlaveState.SWITCHING
            urgent = switched or (str(replication.prefix), name) in now
            age = time.monotonic() - cache.read_at
            if not cache.asked and age >= (FRESH_SECONDS if urgent else AGAIN_SECONDS):
                new, cache.asked = urgent or age >= LATELY_SECONDS, True
                asking = ASKING.submit(_ask, cache, replication, name)
                first += [asking] if new else []
        wait(first, timeout=FIRST_SECONDS)
        return {pair: cache.answer for pair, (cache, _) in caches.items()}

    async def master(self, replication: Replication) -> LastAnswer[MasterData]:
        """The state of a master's database; empty for a recorded stream, which has none."""
        if replication.master.stream:
            return LastAnswer(None, None)
        cache = self._masters.setdefault(str(replication.prefix), _Place())
        return await in_thread(lambda: _again(cache, lambda: _master(replication)))

    async def queries(self, replication: Replication) -> LastAnswer[list[Broadcast]]:
        """The last queries of all databases, with their answers."""
        cache, master = self._queries.setdefault(str(replication.prefix), _Place()), replication.master

        def read() -> list[Broadcast]:
            return broadcast.recent(replication, _short(master.conn_id, master.vendor, replication), QUERIES_SHOWN)

        return await in_thread(lambda: _again(cache, read))


def _again(cache: _Place[Seen], query: Callable[[], Seen]) -> LastAnswer[Seen]:
    with cache.lock:
        if time.monotonic() - cache.read_at >= FRESH_SECONDS:
            try:
                cache.answer = LastAnswer(query(), datetime.now(UTC))
            except SluiceError as failure:
                cache.answer = replace(cache.answer, trouble=str(failure))
            cache.read_at = time.monotonic()
        return cache.answer


def _ask(cache: _Place[SlaveData], replication: Replication, name: str) -> None:
    try:
        _again(cache, lambda: _slave(replication, name))
    finally:
        cache.asked = False


def _slave(replication: Replication, name: str) -> SlaveData:
    endpoint = replication.slave(name)
    info = _short(endpoint.conn_id, endpoint.vendor, replication)
    pair = Pair(replication, endpoint, info, info)
    with reach(info, APPLICATION, LOOK_SECONDS) as session:
        checkpoint = CheckpointStore.of(Update.named(pair, "monitor"), session).read()
        if checkpoint is None:
            return SlaveData()
        loading = None
        if checkpoint.state is SlaveState.INITIAL or checkpoint.loading:
            loading = progress(Update.named(pair, "monitor"), session, _estimates(replication))
        store = RejectStore.of(pair, session)
        rejects = [one for one in store.open() if one.action != Action.DIFFER] if store.ready() else []
        switches = _switches(session, info, replication.prefix, endpoint.schema)
    open_rejects = tuple(rejects[:REJECTS_SHOWN])
    return SlaveData(checkpoint, loading, open_rejects, len(rejects), switches, who(info.server, switches))


def _switches(session: Session, info: ConnectionInfo, prefix: Prefix, schema: str) -> Sequence[Switch]:
    if not VENDORS[info.vendor].fails_over:
        return ()
    return master_of(info.vendor).failover.FailoverStore(session, prefix, schema, "").switches()


def waiting(replication: Replication, name: str, store: "redis.Redis") -> Waiting:
    """The first changes that wait for a slave. Raises `no-changes-to-clear`, outages."""
    endpoint, master = replication.slave(name), replication.master
    of_slave = _short(endpoint.conn_id, endpoint.vendor, replication)
    of_master = _short(master.conn_id, master.vendor, replication)
    return waiting_changes.read(Pair(replication, endpoint, of_master, of_slave), store, APPLICATION, WAITING_SHOWN)


def _estimates(replication: Replication) -> Mapping[TableName, Estimate]:
    """Estimated rows of the master's tables. Empty if it does not answer: the page then shows less of a load."""
    master = replication.master
    if master.stream:
        return {}
    try:
        with reach(_short(master.conn_id, master.vendor, replication), APPLICATION, LOOK_SECONDS) as session:
            vendor = master_of(master.vendor)
            captured = vendor.queue(session, replication.prefix, master.schema).captured()
            return dict(vendor.rows.estimates(session, list(captured)))
    except SluiceError:
        return {}


def _master(replication: Replication) -> MasterData:
    endpoint, vendor = replication.master, master_of(replication.master.vendor)
    info = _short(endpoint.conn_id, endpoint.vendor, replication)
    with reach(info, APPLICATION, LOOK_SECONDS) as session:
        have = vendor.capture(session, replication.prefix, endpoint.schema).installed()
        if have is None:
            return MasterData()
        captured = vendor.queue(session, replication.prefix, endpoint.schema).captured()
        faults = not_captured(replication, vendor.rows.tables(session), captured)
        tables = sorted({*captured, *faults})
        sizes = vendor.rows.estimates(session, tables)
        backlog = vendor.queue(session, replication.prefix, endpoint.schema).backlog()
        switches = _switches(session, info, replication.prefix, endpoint.schema)
    master_tables = [MasterTable(one, faults.get(one, ""), sizes[one].rows if one in sizes else None) for one in tables]
    return MasterData(have.version, have.current, tuple(master_tables), backlog, switches)


def _short(conn_id: str, vendor: str, replication: Replication) -> ConnectionInfo:
    return connections.info(conn_id, vendor, str(replication.source)).given_up_after(LOOK_SECONDS)


@dataclass(frozen=True)
class Image:
    """A column of a reject: before the change, after it, and on the slave.

    Each has its value, None for NULL, or nothing if that row is not there or lacks the column.
    """

    column: str
    before: tuple[str | None, ...]
    after: tuple[str | None, ...]
    on_slave: tuple[str | None, ...]
    differs: bool


def images(reject: Reject, mask: Mask, *, visible: bool) -> list[Image]:
    """The columns of a reject. Values are hidden unless `visible`, and always in masked columns."""
    before, after, on_slave = _row(lambda: reject.before), _row(lambda: reject.after), _row(lambda: reject.on_slave)
    return _images(reject.table, before, after, on_slave, mask, visible)


def waiting_images(change: WaitingChange, mask: Mask, *, visible: bool) -> list[Image]:
    """As `images`, of a change that waits."""
    return _images(change.table, change.before, change.after, {}, mask, visible)


def _images(
    table: TableName,
    before: Mapping[str, str | None],
    after: Mapping[str, str | None],
    on_slave: Mapping[str, str | None],
    mask: Mask,
    visible: bool,
) -> list[Image]:
    columns = list(dict.fromkeys([*after, *before, *on_slave]))

    def shown(row: Mapping[str, str | None], column: str) -> tuple[str | None, ...]:
        if column not in row:
            return ()
        value = row[column]
        return (value if value is None or (visible and not mask.hides(table, column)) else HIDDEN,)

    return [
        Image(
            column,
            shown(before, column),
            shown(after, column),
            shown(on_slave, column),
            bool(on_slave) and on_slave.get(column) != (before or after).get(column),
        )
        for column in columns
    ]


def _row(read: Callable[[], dict[str, str | None]]) -> dict[str, str | None]:
    """The row; empty for a reject without one, which says that a table differs."""
    try:
        return read()
    except SluiceError:
        return {}
