"""Our side: capture on the master, and the apply as production starts it, a query of Spark."""

import argparse
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import redis

from benchmarks import cpu, progress
from benchmarks.servers import DATABASES, Servers
from benchmarks.side import Side
from devstack.process import await_true
from sluice import config
from sluice.capture import reconcile, resources
from sluice.configuration.model import DEFAULT_SCHEMA, Replication
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.apply_query import LINES_KEPT, ApplyQuery, QueryRecord
from sluice.coordination.gate import ADMIN, Gate
from sluice.coordination.records import Status
from sluice.database.changes import ChangeQueue
from sluice.errors import Terminal
from sluice.model.apply_status import StopRequest
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import PostgresSession
from sluice.vendors.postgres.source.queue import PostgresQueue
from spark_jobs import apply_query
from spark_jobs.apply_task import ApplyTask
from spark_jobs.endpoint import Endpoint
from workload import mixes

PREFIX = Prefix("BENCH_")
SLAVE = "dr1"
STOP_SECONDS = 60.0
"""How long an apply may take to end when it is asked to; then Spark ends it."""
CONFIGURATION = """
prefix: BENCH_
master: MASTER
slaves:
  dr1: {conn_id: slave, vendor: VENDOR}
tables:
  public.*: RULE
# A safe mode of seconds after the start, so that what is measured is the normal one.
apply: {checkpoint_interval: 1MORE}
initial: {parallel: CORES}
"""


def configure(
    folder: Path, rule: str = "{}", vendor: str = "postgres", master: str = "{conn_id: master}", **options: Any
) -> Replication:
    """The configuration of every bench, from a file as always; `options` of `apply` are added.

    `rule`, `master`: what is said of all tables and of the master, as YAML. `vendor`: the slave's.
    """
    folder.mkdir(exist_ok=True)
    more = "".join(f", {name}: {value}" for name, value in options.items())
    text = CONFIGURATION.replace("CORES", str(os.cpu_count())).replace("MORE", more)
    text = text.replace("RULE", rule).replace("VENDOR", vendor).replace("MASTER", master)
    (folder / "BENCH.yaml").write_text(text)
    os.environ["SLUICE_REPLICATIONS"] = str(folder)
    return config.load(str(PREFIX))


def capture(master: PostgresSession, replication: Replication) -> None:
    """DbResources, event triggers with them, and the triggers of every table in `public`."""
    resources.install(master, PREFIX, DEFAULT_SCHEMA)
    reconcile.reconcile(master, PREFIX, DEFAULT_SCHEMA, replication.resolve(catalog.tables(master)))


def begin(store: CheckpointStore, queue: ChangeQueue) -> None:
    """The slave is NORMAL and has all that the master has: nothing."""
    store.ensure()
    store.move(SlaveState.INITIAL)
    store.move(SlaveState.TRANSITION)
    now = queue.take()
    queue.secure(now)
    store.start_at(now)
    store.move(SlaveState.NORMAL)


def start_query(query: ApplyQuery, pair: Pair, redis_url: str, endpoint: Endpoint) -> QueryRecord:
    """Starts the apply of a pair as the DAG does; returns before it applies."""
    session = apply_query.new_session()
    record = QueryRecord(f"apply {session}", {}, time.time(), session, str(endpoint))
    query.write(record)
    record = apply_query.start(ApplyTask(record.id, pair, redis_url, endpoint), record)
    query.write(record)
    return record


def stop_query(query: ApplyQuery, record: QueryRecord, endpoint: Endpoint) -> None:
    """Ends it as the DAG does."""
    query.request_stop(record.id, StopRequest("bench", "it is over", time.time()))
    await_true(lambda: not query.state().runs, STOP_SECONDS)
    apply_query.stop(endpoint, record)


class Ours(Side):
    """Captured tables on the master, and after `start` a running apply."""

    name = "ours"
    record: QueryRecord | None = None
    """Of the query that runs."""

    def __init__(
        self,
        servers: Servers,
        args: argparse.Namespace,
        tables: str,
        spark_conf: Mapping[str, str] | None = None,
        rule: str = "{}",
        of_slave: str = "",
        **options: Any,
    ) -> None:
        """`tables`: DDL of both databases; `of_slave`: what the slave's tables have otherwise, likewise.

        `rule`, `options`: see `configure`.
        """
        super().__init__(servers, DATABASES[0])
        self.endpoint = servers.spark(args.spark_master, spark_conf)
        self.options = options
        self.beside: cpu.Roots = dict
        """Further processes that are ours: of a cluster."""
        replication = configure(servers.folder / "replications", rule, **options)
        self.pair = Pair.of(replication, SLAVE, self.infos)
        self.store = redis.from_url(servers.redis_url, decode_responses=True)
        self.gate = Gate(self.store, PREFIX, SLAVE)
        self.status = Status(self.store, PREFIX, SLAVE)
        self.run_on_both(tables)
        if of_slave:
            self.slave.execute(of_slave.encode())
        capture(self.master, self.pair.replication)
        with self.slave.transaction():
            begin(self.checkpoints, self.queue)

    @property
    def queue(self) -> ChangeQueue:
        """The changes of the master."""
        return PostgresQueue(self.master, PREFIX, DEFAULT_SCHEMA)

    @property
    def checkpoints(self) -> CheckpointStore:
        return self.checkpoints_over(self.slave)

    def checkpoints_over(self, slave: PostgresSession) -> CheckpointStore:
        """Over another session than this side's own, of another thread."""
        return CheckpointStore(slave, PREFIX, DEFAULT_SCHEMA, SLAVE)

    def start(self) -> None:
        """Returns when the apply applies, in normal mode."""
        progress.say("starts the apply")
        self.store.delete(self.status.key)  # the last words of an apply before this one
        self.record = start_query(self.query, self.pair, self.servers.redis_url, self.endpoint)
        self.await_that(lambda: self._status_of("activity") == "applying", "the apply applies")
        self.await_that(lambda: self._status_of("safe_mode") == "off", "safe mode ends")

    @property
    def query(self) -> ApplyQuery:
        return ApplyQuery(self.store, PREFIX, SLAVE)

    @property
    def log(self) -> str:
        """What the apply has said."""
        return "\n".join(self.query.last_lines(LINES_KEPT))

    def attach(self) -> None:
        """Lets the apply meet a first large window, for which it makes a session of Spark; returns when that is there.

        With the option `stage_above`.
        """
        rows = f"SELECT {mixes.VALUES} FROM generate_series(1, {self.options['stage_above'] + 1}) AS s (i)"
        self.master.execute(f"INSERT INTO {mixes.TABLE} {rows}".encode())
        self.await_that(lambda: "is attached" in self.log, "Spark is attached")

    def hold(self) -> None:
        self.gate.close(ADMIN, "bench", "changes are to wait")
        self.await_that(lambda: self._status_of("activity").startswith("waiting: the gate"), "the gate is seen closed")

    def release(self) -> None:
        self.gate.open(ADMIN)

    def await_current(self) -> None:
        now = self.queue.take()

        def current() -> bool:
            found = self.checkpoints.read()
            return bool(found and found.position and not found.catching_up and found.position.covers_all_of(now))

        self.await_that(current, "the checkpoint covers what the master has committed")

    def forget(self) -> None:
        """As `housekeeping` does, only at once."""
        self.master.execute("TRUNCATE sluice.bench_items")

    def check(self) -> None:
        if self.record is not None and (end := self.query.state().end) is not None:
            raise Terminal(
                f"The apply ended with status {end.rc}:\n" + "\n".join(self.query.last_lines(15)),
                code="bench-side-failed",
            )

    def roots(self) -> dict[str, int]:
        """The process of the apply. Spark's others are counted with the servers."""
        begun = self.query.state().begun
        return {**self.beside(), "apply": begun.pid} if begun is not None else {}

    def describe(self) -> Mapping[str, Any]:
        import pyspark

        return {"Spark": pyspark.__version__, "spark": str(self.endpoint), "apply": self.options}

    def stop(self) -> None:
        """Ends the apply as the DAG does."""
        record, self.record = self.record, None
        if record is None:
            return
        stop_query(self.query, record, self.endpoint)

    def close(self) -> None:
        self.stop()
        super().close()

    def _status_of(self, key: str) -> str:
        return str(self.status.read().get(key) or "")
