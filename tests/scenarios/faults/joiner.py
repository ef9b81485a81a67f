"""A table that joins the replication during faults: created and filled on the master, captured, loaded."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import psycopg

from sluice import pair
from sluice.capture import reconcile
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.database.registry import reach
from sluice.errors import SluiceError
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.loader import load_worker
from sluice.load.selection import Selection
from sluice.load.update import Update
from sluice.model.checkpoint import Checkpoint
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect
from tests.rig.loaders import in_threads
from workload.tables import JOINING, JOINING_NAME

ROWS, BLOCK_ROWS = 600, 50
PAUSE_SECONDS = 0.2
MADE = (
    f"CREATE TABLE IF NOT EXISTS {JOINING} (id int PRIMARY KEY, v text, version bigint NOT NULL)",
    f"INSERT INTO {JOINING} SELECT g, 'from before', nextval('public.stamp') FROM generate_series(1, {ROWS}) g"
    " ON CONFLICT DO NOTHING",
)


class Steps(threading.Thread):
    """Does what people and DAGs do, each step again until it succeeds.

    `loaded`: whether all is done. `last`: why a step failed last, for people.
    """

    what: str

    def __init__(self, ends: pair.Pair, redis_url: str):
        super().__init__(name=type(self).__name__, daemon=True)
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
        try:
            for step in self._steps():
                self._until_done(step)
            self.loaded = not self._enough.is_set()
        except BaseException as failure:
            self.failure = failure

    def _steps(self) -> Iterator[Callable[[], object]]:
        raise NotImplementedError

    def _of_update(self, update: Update) -> Iterator[Callable[[], object]]:
        """The steps of the DAG `initial_update` for this update."""
        yield partial(steps.begin, update, self._store)
        yield partial(steps.create_tables, update)
        yield partial(steps.plan, update, self._store)
        yield partial(self._load, update)
        yield partial(self._await, lambda found: found.state is SlaveState.NORMAL)
        yield partial(steps.finish, update)

    def _load(self, update: Update) -> None:
        raise NotImplementedError

    def _until_done(self, step: Callable[[], object]) -> None:
        while not self._enough.is_set():
            try:
                step()
                return
            except (SluiceError, psycopg.Error) as error:  # servers are down, disks are full, the slave catches up
                self.last = str(error)
                self._enough.wait(PAUSE_SECONDS)

    def _await(self, holds: Callable[[Checkpoint], bool]) -> None:
        while not self._enough.wait(PAUSE_SECONDS):
            with reach(self._pair.slave_info, "joiner") as slave:
                store = CheckpointStore.of(self._pair, slave)
                found = store.read()
            assert found is not None
            if holds(found):
                return


class Joiner(Steps):
    """Does what `reconcile_tables` and `initial_update` do for one table, with the load in this process."""

    what = "a table joined"

    def _steps(self) -> Iterator[Callable[[], object]]:
        yield self._make
        yield self._capture
        yield partial(self._await, lambda found: JOINING_NAME in found.tables)
        choice = Selection.from_dict({"tables": [str(JOINING_NAME)]})
        yield from self._of_update(Update.named(self._pair, "joining", choice))

    def _make(self) -> None:
        with connect(self._pair.master_info, application="joiner") as master:
            for statement in MADE:
                master.execute(statement.encode())

    def _capture(self) -> None:
        one = self._pair.replication
        with connect(self._pair.master_info, application="joiner", autocommit=True) as master:
            reconcile.reconcile(master, one.prefix, one.master.schema, one.resolve(catalog.tables(master)))

    def _load(self, update: Update) -> None:
        with LoadJob(update) as job:
            in_threads(job, partial(load_worker, update), 2, job.tick)
