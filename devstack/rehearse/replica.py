"""A replication between throw-away servers: really captured, loaded and applied, with threads in place of Spark."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import psycopg

from sluice.apply.apply_loop import ApplyLoop
from sluice.capture import reconcile, resources, wildcards
from sluice.configuration.resolve import own_tables
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.errors import SluiceError, Terminal
from sluice.executor import ThreadExecutor
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.load_snapshot import LoadSnapshot
from sluice.load.loader import load_worker
from sluice.load.update import Update
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import ALL_READY, TableStates
from sluice.pair import Pair
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.source.resources import PostgresCapture
from sluice.vendors.postgres.source.tables_registry import Registry
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import TableFinding
from sluice.verify.resync import compare_table

LOOK_SECONDS = 0.02
NORMAL_SECONDS = 300.0
APPLICATION = "sluice rehearsal"


class NotLoaded(Terminal):
    """The slave did not become NORMAL, before any script ran."""

    def __init__(self, pair: Pair, reason: str):
        super().__init__(
            f"{pair}: the slave could not be loaded from the definitions, before any script ran: {reason}. A real "
            "initial update would end the same way."
        )


@dataclass
class Replica:
    """One slave of the captured server. `begin` first; `stack` ends the apply."""

    pair: Pair
    redis_url: str
    notified: bool = True
    """Whether event triggers tell of definitions; otherwise they are found by comparison."""
    failure: SluiceError | None = None
    """What ended the apply, or keeps it from what it needs on the master."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _sessions: dict[str, Session] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.pair.slave.name

    def begin(self, stack: ExitStack) -> None:
        """Captures the tables, loads the slave, and applies from then on. Raises `NotLoaded` and other errors."""
        prefix, replication = self.pair.prefix, self.pair.replication
        schema = replication.master.schema
        stack.callback(self._close)
        store = redis_store.connect(self.redis_url)
        resources.install(self.master, prefix, schema)
        capture = PostgresCapture(self.master, prefix, schema)
        if self.notified and not capture.has_event_triggers():
            capture.make_event_triggers()
        if not self.notified:
            capture.remove_event_triggers()
        reconcile.reconcile(self.master, prefix, schema, replication.resolve(catalog.tables(self.master)))
        wildcards.note(self.master, replication)
        update = Update.named(self.pair, "rehearsal")
        steps.begin(update, store)
        steps.create_tables(update)
        steps.plan(update, store, steps.IN_ONE_SNAPSHOT if update.options.read == "snapshot" else "")
        with LoadJob(update) as job, LoadSnapshot(update) as held:
            work = partial(load_worker, update, job.loader(0), lambda: False)
            ended = threading.Event()
            failures: list[BaseException] = []
            thread = threading.Thread(target=_kept, args=[work, failures, ended], daemon=True)
            thread.start()
            while not ended.wait(0.2):
                job.tick()
                held.check()
            if failures:
                raise failures[0]
        steps.arrive(update, store)
        self._apply(stack)
        end = time.monotonic() + NORMAL_SECONDS
        while self.state() is not SlaveState.NORMAL:
            if self.failure or time.monotonic() > end:
                raise NotLoaded(self.pair, str(self.failure or f"it is {self.state()}"))
            time.sleep(LOOK_SECONDS)
        steps.finish(update)

    def _apply(self, stack: ExitStack) -> None:
        loop = ApplyLoop(
            self.pair, redis_store.connect(self.redis_url), ThreadExecutor(), self._stop, watches_file=False
        )

        def run() -> None:
            try:
                loop.run()
            except SluiceError as error:
                self.failure = error
            except Exception as error:
                self.failure = Terminal(f"{type(error).__name__}: {error}", code="replica-failed")
                logging.getLogger(__name__).exception("%s: the apply has ended", self.pair)

        thread = threading.Thread(target=run, name=f"apply {self.pair}", daemon=True)
        thread.start()
        stack.callback(thread.join, 30.0)
        stack.callback(self._stop.set)

    def _session(self, side: str, info: ConnectionInfo) -> Session:
        """A session there; another one after a script has ended it."""
        try:
            self._sessions[side].ping()
        except (KeyError, SluiceError):
            sessions = vendor_of(info.vendor).sessions
            self._sessions[side] = sessions.connect(info, application=APPLICATION, autocommit=True)
        return self._sessions[side]

    def _close(self) -> None:
        for session in self._sessions.values():
            session.close()

    @property
    def master(self) -> Session:
        return self._session("master", self.pair.master_info)

    @property
    def slave(self) -> Session:
        return self._session("slave", self.pair.slave_info)

    def find_definitions(self) -> None:
        """Without event triggers: does at once what the apply does in intervals, it compares the definitions."""
        if not self.notified and self.failure is None:
            own = f"{quoted(self.pair.replication.master.schema)}.{self.pair.prefix.lower}"
            try:
                self.master.execute(f"SELECT {own}tell_unseen()".encode())
                self.master.execute(f"SELECT {own}check_structure()".encode())
            except SluiceError as error:  # a script may have dropped them
                self.failure = error

    def lost_event_triggers(self) -> bool:
        """Whether a script has dropped what tells of definitions."""
        schema = self.pair.replication.master.schema
        return self.notified and not PostgresCapture(self.master, self.pair.prefix, schema).has_event_triggers()

    def settle(self, seconds: float) -> float | None:
        """Waits until the slave has everything that is committed now; returns the seconds, None if it did not get
        it in that time or its apply has ended."""
        begun = time.monotonic()
        prefix, schema = self.pair.prefix, self.pair.replication.master.schema
        try:
            now = PostgresQueue(self.master, prefix, schema).take()
        except SluiceError as error:  # a script may have dropped it
            self.failure = self.failure or error
            return None
        while time.monotonic() < begun + seconds and self.failure is None:
            found = self._checkpoints.read()
            if found is not None and found.position is not None and found.position.covers_all_of(now):
                return time.monotonic() - begun
            time.sleep(LOOK_SECONDS)
        return None

    @property
    def _checkpoints(self) -> CheckpointStore:
        return CheckpointStore.of(self.pair, self.slave)

    def state(self) -> SlaveState:
        found = self._checkpoints.read()
        return found.state if found else SlaveState.UNCONFIGURED

    def message(self) -> str:
        """What a person has to know about the slave."""
        found = self._checkpoints.read()
        return found.message if found else ""

    def states(self) -> TableStates:
        found = self._checkpoints.read()
        return found.tables if found else ALL_READY

    def captured(self) -> list[TableName]:
        """The captured tables that the master has; none after a script has dropped the list of them."""
        registry = Registry(self.master, self.pair.prefix, self.pair.replication.master.schema)
        there = set(catalog.tables(self.master))
        try:
            return sorted(table for table in registry.tables() if table in there)
        except SluiceError:
            return []

    def uncaptured(self) -> list[TableName]:
        """The master's tables that the replication does not have."""
        tables = set(catalog.tables(self.master))
        return sorted(tables - set(self.captured()) - own_tables(tables))

    def rows(self, table: TableName) -> int:
        """How many rows the master's table has."""
        row = self.master.execute(f"SELECT count(*) FROM {quoted(table.schema, table.name)}".encode()).fetchone()
        return int(row[0]) if row else 0

    def compare(self, table: TableName) -> TableFinding:
        """Compares a table on both sides, as a verification does. Does not raise."""
        return compare_table(self.pair, redis_store.connect(self.redis_url), table, CompareOptions())

    def waiting(self) -> tuple[int, int]:
        """How many changes and bytes ITEMS has."""
        name = f"{quoted(self.pair.replication.master.schema)}.{self.pair.prefix.lower}items"
        try:
            row = self.master.execute(
                f"SELECT count(*), pg_catalog.pg_total_relation_size('{name}') FROM {name}".encode()
            ).fetchone()
        except psycopg.Error:
            return 0, 0
        assert row is not None
        return int(row[0]), int(row[1])


def _kept(work: Callable[[], object], failures: list[BaseException], ended: threading.Event) -> None:
    try:
        work()
    except BaseException as failure:
        failures.append(failure)
    finally:
        ended.set()
