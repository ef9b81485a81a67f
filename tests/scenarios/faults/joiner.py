"""A table that joins the replication while faults strike: made and filled on the master, captured, loaded."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import psycopg

from sluice import pair
from sluice.domain.checkpoint import Checkpoint
from sluice.domain.state import SlaveState
from sluice.errors import SluiceError
from sluice.initial import steps
from sluice.initial.choice import Choice
from sluice.initial.job import LoadJob
from sluice.initial.loader import load_worker
from sluice.initial.update import Update
from sluice.install import reconcile
from sluice.stores import redis_store
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.checkpoint import CheckpointStore
from sluice.vendors.postgres.connection import connect
from tests.scenarios.faults.tables import JOINING, JOINING_NAME
from tests.scenarios.initial_load.loaders import in_threads

ROWS, BLOCK_ROWS = 600, 50
PAUSE_SECONDS = 0.2
MADE = (
    f"CREATE TABLE IF NOT EXISTS {JOINING} (id int PRIMARY KEY, v text, version bigint NOT NULL)",
    f"INSERT INTO {JOINING} SELECT g, 'from before', nextval('public.stamp') FROM generate_series(1, {ROWS}) g"
    " ON CONFLICT DO NOTHING",
)


class Joiner(threading.Thread):
    """Does what people and the DAGs `reconcile_tables` and `initial_update` do, each step again until it succeeds.

    `loaded`: whether the slave has the table. `last`: why a step failed last, for people.
    """

    def __init__(self, ends: pair.Pair, redis_url: str):
        super().__init__(name="joiner", daemon=True)
        self.loaded = False
        self.last = ""
        self.failure: BaseException | None = None
        options = replace(ends.replication.initial, block_rows=BLOCK_ROWS)
        self._pair = replace(ends, replication=replace(ends.replication, initial=options))
        self._store = redis_store.connect(redis_url)
        self._enough = threading.Event()

    def stop(self) -> None:
        self._enough.set()

    def run(self) -> None:
        choice = Choice.from_dict({"tables": [str(JOINING_NAME)]})
        update = Update.named(self._pair, "joining", choice)
        try:
            for step in (
                self._make,
                self._capture,
                partial(self._await, lambda found: JOINING_NAME in found.tables),
                partial(steps.begin, update, self._store),
                partial(steps.create_tables, update),
                partial(steps.plan, update, self._store),
                partial(self._load, update),
                partial(self._await, lambda found: found.state is SlaveState.NORMAL),
                partial(steps.finish, update),
            ):
                self._until_done(step)
            self.loaded = not self._enough.is_set()
        except BaseException as failure:
            self.failure = failure

    def _until_done(self, step: Callable[[], object]) -> None:
        while not self._enough.is_set():
            try:
                step()
                return
            except (SluiceError, psycopg.Error) as error:  # servers are down, disks are full, the slave catches up
                self.last = str(error)
                self._enough.wait(PAUSE_SECONDS)

    def _make(self) -> None:
        with connect(self._pair.master_info, application="joiner") as master:
            for statement in MADE:
                master.execute(statement.encode())

    def _capture(self) -> None:
        one = self._pair.replication
        with connect(self._pair.master_info, application="joiner", autocommit=True) as master:
            reconcile.reconcile(master, one.prefix, one.master.schema, one.resolve(catalog.tables(master)))

    def _await(self, holds: Callable[[Checkpoint], bool]) -> None:
        while not self._enough.wait(PAUSE_SECONDS):
            with connect(self._pair.slave_info, application="joiner", autocommit=True) as slave:
                store = CheckpointStore(slave, self._pair.prefix, self._pair.slave.schema, self._pair.slave.name)
                found = store.read()
            assert found is not None
            if holds(found):
                return

    def _load(self, update: Update) -> None:
        with LoadJob(update) as job:
            in_threads(job, partial(load_worker, update), 2, job.tick)
