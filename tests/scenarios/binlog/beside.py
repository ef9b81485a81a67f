"""A MariaDB master whose log is recorded, and a slave that is loaded beside it, follows, and is compared."""

import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pymysql

from sluice import config
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.coordination.redo_state import RedoState, RedoStatus
from sluice.database.registry import master_of, vendor_of
from sluice.executor import ThreadExecutor
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.loader import load_worker
from sluice.load.selection import Selection
from sluice.load.update import Update
from sluice.model.checkpoint import Checkpoint
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair
from sluice.redo.supervisor import Supervisor
from sluice.vendors.stream.position import StreamPosition
from sluice.verify.compare import CompareOptions
from sluice.verify.resync import Action, TableResult, resync
from tests.rig.applying import Applying
from tests.rig.loaders import in_threads
from tests.scenarios.binlog.master import Master
from tests.waiting import DEADLINE_SECONDS

CONFIG = """
prefix: REC_
master: {{vendor: mysql, capture: binlog, conn_id: m, location: {location}}}
slaves:
  dr1: {{conn_id: s, vendor: {vendor}, on_drop: drop{slave}}}
tables: {{{tables}}}
apply: {{lease: 2.0, checkpoint_interval: 0.1}}
initial: {{block_rows: 50, parallel: 2}}
"""


class Beside:
    """The pair."""

    failure: BaseException | None = None
    raised: BaseException | None = None

    def __init__(
        self, master: Master, vendor: str, slave: ConnectionInfo, redis_url: str, *, options: str = "", more: str = "",
        databases: Sequence[str] = (),
    ):  # fmt: skip
        """`options`: of the slave; `more`: lines of the configuration; `databases`: that are replicated, too."""
        file = f"{os.environ['SLUICE_REPLICATIONS']}/REC.yaml"
        tables = ", ".join(f"{schema}.*: {{}}" for schema in ("public", *databases))
        text = CONFIG.format(location=master.folder, vendor=vendor, slave=options, tables=tables) + more
        with open(file, "w", encoding="utf-8") as written:
            written.write(text)
        self.pair = Pair.of(config.load("REC_"), "dr1", {"m": master.info, "s": slave})
        self.master, self.redis_url, self.redis = master, redis_url, redis_store.connect(redis_url)
        self.slave = vendor_of(vendor).sessions.connect(slave, application="test", autocommit=True)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """The supervisor, in a thread."""
        stop, client = threading.Event(), redis_store.connect(self.redis_url)
        supervisor = Supervisor(self.pair.replication, client, database=self.master.info)
        failures: list[BaseException] = []

        def run() -> None:
            try:
                supervisor.run(stop)
            except BaseException as failure:
                failures.append(failure)
                self.failure = failure

        thread = threading.Thread(target=run)
        thread.start()
        try:
            self.await_that(lambda: failures or any(self.master.folder.glob("*.jsonl")))
            yield
        finally:
            stop.set()
            thread.join()
        if failures:
            raise failures[0]

    def update(self) -> Update:
        return Update.named(self.pair, f"update {uuid.uuid4().hex[:6]}", Selection())

    def begin(self) -> Update:
        update = self.update()
        steps.begin(update, self.redis)
        steps.create_tables(update)
        steps.plan(update, self.redis)
        return update

    def load(self, update: Update, loaders: int = 2) -> None:
        with LoadJob(update) as job:
            in_threads(job, partial(load_worker, update), loaders, job.tick)

    def load_a_part(self, update: Update, blocks: int) -> None:
        """A loader that is ended after so many blocks."""
        left = iter(range(blocks))
        with LoadJob(update) as job:
            load_worker(update, job.loader(1), lambda: next(left, None) is None)

    def apply(self) -> Applying:
        return Applying(self, ThreadExecutor(2))

    def resync(self, table: str, action: Action = Action.VERIFY, sample: int = 0) -> TableResult:
        return resync(self.pair, self.redis, TableName("public", table), CompareOptions(sample=sample), action, None)

    @property
    def checkpoint(self) -> Checkpoint | None:
        store = CheckpointStore.of(self.pair, self.slave)
        return store.read() if store.exists() else None

    @property
    def status(self) -> RedoStatus | None:
        return RedoState(self.redis, self.pair.prefix).read()

    def await_current(self) -> None:
        """Returns when the slave is NORMAL and has all that the master committed by now."""
        end = self.end()
        self.await_that(lambda: self.covers(end))

    def end(self) -> StreamPosition:
        """The end of the master's log, once the stream has it."""
        vendor, rows = master_of("mysql"), self.pair.place_of_rows()
        with vendor.sessions.connect(rows, application="test", autocommit=True) as session:
            return StreamPosition.of(vendor.queue(session, self.pair.prefix, "").take())

    def covers(self, end: StreamPosition) -> bool:
        found = self.checkpoint
        if found is None or found.state is not SlaveState.NORMAL or found.catching_up or found.position is None:
            return False
        return StreamPosition.of(found.position).covers_all_of(end)

    def await_that(self, condition: Callable[[], object]) -> None:
        until = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            if self.failure is not None:
                self.raised = self.failure
                raise self.failure
            assert time.monotonic() < until, self.checkpoint
            time.sleep(0.02)

    def rows(self, table: str, names: str) -> list[tuple[Any, ...]]:
        place = f'public."{table}"' if self.slave.vendor == "postgres" else f'"{table}"'
        return self.slave.execute(f"SELECT {names} FROM {place}".encode()).fetchall()


@contextmanager
def writing(
    master: Master, write: Callable[["pymysql.Connection[Any]", random.Random], None], writers: int = 2
) -> Iterator[None]:
    """Writers on the master until the block ends. `write`: one transaction."""
    stop, failures = threading.Event(), list[BaseException]()

    def run(seed: int) -> None:
        connection, chance = master.connect(), random.Random(seed)
        try:
            while not stop.is_set():
                try:
                    write(connection, chance)
                except pymysql.err.OperationalError as error:
                    if error.args[0] not in (1205, 1213):
                        raise
                    connection.rollback()
        except BaseException as failure:
            failures.append(failure)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[number]) for number in range(writers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
