"""Several databases and the replications between them, with real loads and applies."""

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import psycopg
import redis

from sluice import config
from sluice.capture import reconcile, resources
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.model import Endpoint, Replication, SlaveConfig
from sluice.coordination import redis_store
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.loader import load_worker
from sluice.load.update import Update
from sluice.load.worker import LoadReport
from sluice.model.checkpoint import Checkpoint
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect
from tests.rig.applying import Applying
from tests.rig.loaders import in_threads
from tests.rig.rig import Rig, rows_of
from tests.waiting import DEADLINE_SECONDS


class Fails(Protocol):
    """An apply in a thread, or the pair of one in its own process."""

    failure: BaseException | None


@dataclass
class Net:
    """Databases by the name of their connection; replications by prefix."""

    database: Callable[..., ConnectionInfo]
    redis_url: str
    store: redis.Redis
    folder: Path
    infos: dict[str, ConnectionInfo] = field(default_factory=dict)
    sessions: dict[str, psycopg.Connection[Any]] = field(default_factory=dict)
    replications: dict[str, Replication] = field(default_factory=dict)

    @classmethod
    def of(cls, database: Callable[..., ConnectionInfo], redis_url: str, folder: Path) -> "Net":
        folder.mkdir(parents=True, exist_ok=True)
        return cls(database, redis_url, redis_store.connect(redis_url), folder)

    def configure(self, *texts: str) -> None:
        """Writes replication files (YAML); creates the databases that they name, if missing."""
        for number, text in enumerate(texts):
            (self.folder / f"{number}.yaml").write_text(text)
        with mock.patch.dict(os.environ, SLUICE_REPLICATIONS=str(self.folder)):
            configured = config.survey()
        if configured.mistakes:
            raise ConfigError(configured.mistakes)
        self.replications = {str(one.prefix): one for one in configured.replications}
        for one in self.replications.values():
            places: list[Endpoint | SlaveConfig] = [one.master, *one.slaves.values()]
            for place in places:
                if place.conn_id not in self.infos:
                    self.infos[place.conn_id] = self.database()
                    self.sessions[place.conn_id] = connect(
                        self.infos[place.conn_id], application="test", autocommit=True
                    )

    def at(self, conn_id: str, statement: str, *values: Any) -> list[Any]:
        """Runs a statement in a database; returns its rows."""
        cursor = self.sessions[conn_id].execute(statement.encode(), list(values) or None)
        return cursor.fetchall() if cursor.description else []

    # -- what the DAGs do

    def capture(self, prefix: str) -> reconcile.ReconcileReport:
        """Installs the resources, and reconciles the tables."""
        one = self.replications[prefix]
        master = self.sessions[one.master.conn_id]
        resources.install(master, one.prefix, one.master.schema, one.master.cascade)
        return reconcile.reconcile(master, one.prefix, one.master.schema, one.resolve(catalog.tables(master)))

    def pair(self, prefix: str, slave: str) -> Pair:
        return Pair.of(self.replications[prefix], slave, self.infos)

    def update(self, prefix: str, slave: str, update_id: str | None = None) -> Update:
        return Update.named(self.pair(prefix, slave), update_id or f"update {uuid.uuid4().hex[:6]}")

    def rig(self, prefix: str, slave: str) -> Rig:
        """The rig of one pair of the net; its sessions are the net's."""
        one = self.replications[prefix]
        sessions = self.sessions[one.master.conn_id], self.sessions[one.slaves[slave].conn_id]
        return Rig(self.pair(prefix, slave), self.redis_url, self.store, *sessions)

    def prepare(self, update: Update) -> None:
        """Runs all steps up to TRANSITION."""
        self.capture(str(update.prefix))
        steps.begin(update, self.store)
        steps.create_tables(update)
        steps.plan(update, self.store)

    def load(self, update: Update, loaders: int = 2) -> list[LoadReport]:
        """Runs a load job with its loaders in threads; raises the first error of a loader."""
        with LoadJob(update) as job:
            return in_threads(job, partial(load_worker, update), loaders)

    def follow(self, prefix: str, slave: str) -> None:
        """Makes the slave NORMAL at the current position, with the rows it has."""
        self.rig(prefix, slave).follow()

    def apply(self, prefix: str, slave: str) -> Applying:
        """The real apply of a pair, not started yet."""
        return self.rig(prefix, slave).apply()

    @contextmanager
    def applying(self, *pairs: tuple[str, str]) -> Iterator[list[Applying]]:
        """Runs the real applies of these pairs (prefix, slave), each in a thread; raises an error that ended one of
        them."""
        running = [self.apply(*pair) for pair in pairs]
        with ExitStack() as stack:
            for each in running:
                stack.enter_context(each)
            yield running

    # -- what is seen

    def checkpoint(self, prefix: str, slave: str) -> Checkpoint | None:
        return self.rig(prefix, slave).checkpoints.read()

    def state(self, prefix: str, slave: str) -> SlaveState:
        return self.rig(prefix, slave).state()

    def await_current(
        self, prefix: str, slave: str, running: Iterable[Fails] = (), seconds: float = DEADLINE_SECONDS
    ) -> None:
        """Returns when the slave is NORMAL and has applied all that its master has committed by now."""
        now = self.rig(prefix, slave).now()

        def current() -> bool:
            found = self.checkpoint(prefix, slave)
            return bool(
                found and found.state is SlaveState.NORMAL and found.position and found.position.covers_all_of(now)
            )

        until(current, running, seconds)

    def await_progress(self, prefix: str, slave: str, running: Iterable[Fails]) -> None:
        """Returns when the slave has applied something, while its master is written to."""
        checkpoints = self.rig(prefix, slave).checkpoints
        before = checkpoints.configured().position
        until(lambda: checkpoints.configured().position != before, running)

    def items(self, prefix: str) -> int:
        one = self.replications[prefix]
        return int(self.at(one.master.conn_id, f"SELECT count(*) FROM public.{one.prefix.lower}items")[0][0])

    def assert_equal(self, one: str, other: str, *tables: str) -> None:
        """These tables of the schema public hold the same rows in both databases, compared as texts."""
        first = self.sessions[one]
        for name in tables:
            table = TableName("public", name)
            assert rows_of(self.sessions[other], table, first) == rows_of(first, table, first), f"{table} of {other}"

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()


def until(condition: Callable[[], bool], running: Iterable[Fails] = (), seconds: float = DEADLINE_SECONDS) -> None:
    """Waits; raises an error that ended one of the applies meanwhile."""
    end = time.monotonic() + seconds
    while not condition():
        for each in running:
            if each.failure:
                raise each.failure
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)
