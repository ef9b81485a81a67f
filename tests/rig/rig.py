"""A master, a slave and the replication between them, with real captures, loads and applies.

A rig begins in one of two ways: `Rig.normal`, the slave NORMAL with the master's tables; or `Rig.empty`, two databases
of which the slave is yet to be loaded.
"""

import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import psycopg
import redis
import yaml

from sluice import config
from sluice.capture import resources
from sluice.configuration.model import Replication
from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.coordination.redis_checkpoint import StoredCheckpoint
from sluice.executor import ThreadExecutor
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.load_snapshot import LoadSnapshot
from sluice.load.loader import load_worker
from sluice.load.selection import Selection
from sluice.load.update import Update
from sluice.load.worker import LoadReport
from sluice.model.checkpoint import Checkpoint
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect, quoted
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.source.tables_registry import Registry
from tests.rig.applying import Applying
from tests.rig.loaders import in_threads
from tests.waiting import DEADLINE_SECONDS

HELD = 7
"""Of an advisory lock."""

Database = Callable[..., ConnectionInfo]
MakePair = Callable[..., "Rig"]
"""See the fixture `pair_of`."""


def configured(folder: Path, prefix: str = "DEMO_", **sections: Any) -> Replication:
    """The replication, from a file that is written to `folder`. Tables that the master drops are dropped on slaves,
    too."""
    folder.mkdir(parents=True, exist_ok=True)
    for slave in sections["slaves"].values():
        slave.setdefault("on_drop", "drop")
    (folder / f"{prefix.rstrip('_')}.yaml").write_text(yaml.safe_dump({"prefix": prefix, **sections}))
    with mock.patch.dict(os.environ, SLUICE_REPLICATIONS=str(folder)):
        return config.load(prefix)


@dataclass
class Rig:
    """Two databases and what a test does with them."""

    pair: Pair
    redis_url: str
    store: redis.Redis
    master: psycopg.Connection[Any]
    slave: psycopg.Connection[Any]
    failure: BaseException | None = None
    """What ended the apply that runs, or ran last."""
    raised: BaseException | None = None
    """What was raised of that by an await."""

    @classmethod
    def between(cls, pair: Pair, redis_url: str) -> "Rig":
        """The databases of a pair as they are."""
        sessions = [connect(info, application="test", autocommit=True) for info in (pair.master_info, pair.slave_info)]
        return cls(pair, redis_url, redis_store.connect(redis_url), *sessions)

    @classmethod
    def normal(
        cls,
        database: Database,
        redis_url: str,
        folder: Path,
        tables: str,
        *,
        safe: bool = False,
        interval: float = 0.1,
        batch: int = 1_000_000,
        stage: int = 20_000,
        policy: str = "stop",
        compare: bool = True,
        rule: str = "",
        kept: str = "slave",
        slave_role: bool = False,
        mask: str = "",
    ) -> "Rig":
        """`tables`: DDL run on both. Capture is in place, the slave is NORMAL at the master's position.

        `slave_role`: the slave's account is no superuser. `rule`: YAML of what is said of all tables.
        """
        options: dict[str, Any] = {"conn_id": "s", "schema": "public", "safe_mode": safe, "checkpoint": kept}
        if not safe:  # under which nothing ever conflicts
            options["on_conflict"] = policy
            if policy != "overwrite":  # under which nothing is compared
                options["compare_values"] = compare
        replication = configured(
            folder,
            master={"conn_id": "m", "schema": "public"},
            slaves={"dr1": options},
            tables={"public.*": yaml.safe_load(f"{{{rule}}}")},
            apply={"lease": 2.0, "checkpoint_interval": interval, "max_batch_changes": batch, "stage_above": stage},
            **({"verify": {"mask": mask}} if mask else {}),
        )
        infos = {"m": database(installed=True), "s": database(role=True) if slave_role else database()}
        rig = cls.between(Pair.of(replication, "dr1", infos), redis_url)
        rig.begin(tables)
        return rig

    @classmethod
    def empty(
        cls,
        database: Database,
        redis_url: str,
        folder: Path,
        tables: Iterable[str] | Mapping[str, Any] = ("public.*",),
        *,
        policy: str = "empty",
        block_rows: int = 50,
        seconds: float = 0.5,
        parallel: int = 2,
        role: bool = False,
        master: ConnectionInfo | None = None,
        slave: ConnectionInfo | None = None,
        name: str = "dr1",
        slave_options: Mapping[str, Any] = MappingProxyType({}),
        schema: str = "public",
        interval: float | None = None,
        stage: int = 20_000,
        installed: bool = False,
        prefix: str = "DEMO_",
    ) -> "Rig":
        """A replication of `tables`, a mapping where something is said of them.

        `master`, `slave` give databases that are there already. `installed`: the master has the resources, if its
        account is a superuser and they are in public.

        `name`: the slave's. `schema`: of Sluice's own objects on both sides.
        """
        replication = configured(
            folder,
            prefix,
            master={"conn_id": "m", "schema": schema},
            slaves={name: {"conn_id": "s", "schema": schema, "existing_tables": policy, **slave_options}},
            tables=dict(tables) if isinstance(tables, Mapping) else {table: {} for table in tables},
            initial={
                "block_rows": block_rows,
                "block_target_seconds": seconds,
                "parallel": parallel,
                "where": True,
            },
            **({"apply": {"lease": 2.0, "checkpoint_interval": interval, "stage_above": stage}} if interval else {}),
        )
        # With the resources there already, installing them is a look at their version.
        infos = {
            "m": master or database(role=role, installed=installed and schema == "public" and not role),
            "s": slave or database(role=role),
        }
        return cls.between(Pair.of(replication, name, infos), redis_url)

    @property
    def replication(self) -> Replication:
        return self.pair.replication

    @property
    def name(self) -> str:
        """The slave's name."""
        return self.pair.slave.name

    @property
    def master_info(self) -> ConnectionInfo:
        return self.pair.master_info

    @property
    def slave_info(self) -> ConnectionInfo:
        return self.pair.slave_info

    @property
    def schema(self) -> str:
        """The schema of Sluice's own objects on the slave."""
        return self.pair.slave.schema

    def with_slave(self, **options: Any) -> "Rig":
        """The same rig with other options of its slave."""
        return self.with_options(slaves={self.name: replace(self.pair.slave, **options)})

    def with_options(self, **options: Any) -> "Rig":
        """The same rig with another configuration."""
        replication = replace(self.replication, **options)
        return replace(self, pair=replace(self.pair, replication=replication, slave=replication.slaves[self.name]))

    # -- before an apply

    def begin(self, tables: str) -> None:
        """Prepares two empty databases: runs the DDL, captures, sets the state NORMAL."""
        for connection in (self.master, self.slave):
            connection.execute(tables)
        self.install()
        self.follow()

    def follow(self) -> None:
        """Makes the slave NORMAL at the current position, with the rows it has."""
        with self.slave.transaction():
            checkpoints = self.checkpoints
            checkpoints.ensure()
            checkpoints.move(SlaveState.INITIAL)
            checkpoints.move(SlaveState.TRANSITION)
            checkpoints.start_at(self.seen_now())
            checkpoints.move(SlaveState.NORMAL)

    def install(self) -> None:
        """Captures every table of the master."""
        resources.install(self.master, self.pair.prefix, self.replication.master.schema)
        for table in self.tables(self.master):
            self.capture_table(table.name, table.schema)

    def capture(self, *, again: bool = True) -> None:
        """Captures the configured tables, as the DAG's tasks install_resources and reconcile do; `again`: also those
        that are registered."""
        resources.install(self.master, self.pair.prefix, self.replication.master.schema)
        registry = Registry(self.master, self.pair.prefix, self.replication.master.schema)
        for resolved in self.replication.resolve(catalog.tables(self.master)):
            if again or not registry.has(resolved.table):
                self.capture_table(resolved.table.name, resolved.table.schema)

    def capture_table(self, table: str, schema: str = "public") -> None:
        """Registers a table, unless it is registered, and creates its triggers."""
        registry = Registry(self.master, self.pair.prefix, self.replication.master.schema)
        if not registry.has(TableName(schema, table)):
            registry.register(TableName(schema, table))
        registry.capture(TableName(schema, table))

    # -- loads

    def update(self, update_id: str | None = None, **choice: Any) -> Update:
        return Update.named(self.pair, update_id or f"update {uuid.uuid4().hex[:6]}", Selection.from_dict(choice))

    def prepare(self, update: Update) -> None:
        """Runs all steps up to TRANSITION, or, for a part, up to the state loading of its tables."""
        self.capture(again=False)
        steps.begin(update, self.store)
        steps.create_tables(update)
        steps.plan(update, self.store, steps.IN_ONE_SNAPSHOT if update.options.read == "snapshot" else "")

    def load(self, update: Update, loaders: int = 2) -> list[LoadReport]:
        """Runs a load job with its loaders in threads; raises the first error of a loader."""
        with LoadJob(update) as job, LoadSnapshot(update) as held:
            reports = in_threads(job, partial(load_worker, update), loaders, lambda: (job.tick(), held.check()))
        steps.arrive(update, self.store)
        return reports

    def load_to_normal(self, update: Update) -> None:
        """Loads, and waits for NORMAL with all loaded tables ready, which needs a running apply."""
        self.load(update)
        self.await_normal()

    def blocks(self, table: str | None = None) -> list[Any]:
        found = BlockStore(self.slave, self.pair.prefix, self.schema, self.name).map().tables
        return [
            block for name, joined in found.items() for block in joined.blocks if table is None or name.name == table
        ]

    def declare_normal(self) -> None:
        """Does what the apply does when no change came during the load."""
        with self.slave.transaction():
            self.checkpoints.move(SlaveState.NORMAL)

    def slow_down(self, table: str, seconds: float) -> None:
        """Makes the store of each row on the slave take that long, so that a test can act in the middle of a load."""
        self._slow(f"PERFORM pg_sleep({seconds});")
        self.slave.execute(
            f"CREATE TRIGGER slow BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION public.slow()".encode()
        )
        self.slave.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER slow".encode())

    def hold(self, *tables: str) -> "psycopg.Connection[Any]":
        """Keeps any row of the tables from being stored on the slave until the returned session is closed."""
        holder = connect(self.slave_info, application="holder", autocommit=True)
        holder.execute(f"SELECT pg_advisory_lock({HELD})".encode())
        for table in tables:
            self.slow_down(table, 0)
        self._slow(f"PERFORM pg_advisory_xact_lock_shared({HELD});")
        return holder

    def full_speed(self) -> None:
        """From now on rows are stored at full speed."""
        self._slow("")

    def _slow(self, wait: str) -> None:
        self.slave.execute(
            "CREATE OR REPLACE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS "
            f"'BEGIN {wait} RETURN NEW; END'".encode()
        )

    # -- applies

    def apply(self, parallelism: int = 2) -> Applying:
        """An apply in a thread of this process; use it as a context."""
        return Applying(self, ThreadExecutor(parallelism))

    def now(self) -> Position:
        """The master's current position."""
        return PostgresQueue(self.master, self.pair.prefix, self.replication.master.schema).take()

    def seen_now(self) -> Position:
        """As `now`, for a checkpoint: the master has a record of it."""
        now = self.now()
        PostgresQueue(self.master, self.pair.prefix, self.replication.master.schema).secure(now)
        return now

    def await_current(self, seconds: float = DEADLINE_SECONDS) -> None:
        """Returns when the slave has applied all that the master has committed by now."""
        now = self.now()
        self.await_that(lambda: (applied := self.applied) is not None and applied.covers_all_of(now), seconds)

    def await_applied(self, running: Applying, seconds: float = DEADLINE_SECONDS) -> None:
        """As `await_current`, wherever the apply keeps its checkpoint."""
        now = self.now()
        self.await_that(lambda: bool((seen := running.loop.seen) and seen.covers_all_of(now)), seconds)

    def await_normal(self, seconds: float = DEADLINE_SECONDS) -> None:
        """Returns when the slave is NORMAL, and none of its tables is loading."""
        self.await_that(
            lambda: (found := self.checkpoint).state is SlaveState.NORMAL and not found.tables.loading, seconds
        )

    def await_normal_mode(self, running: Applying) -> None:
        """Returns when all is applied and the apply has left safe mode."""
        self.await_current()
        self.await_that(lambda: running.in_normal_mode)

    def await_that(self, condition: Callable[[], object], seconds: float = DEADLINE_SECONDS) -> None:
        """Waits for the condition; raises an error that ended the apply before."""
        end = time.monotonic() + seconds
        while not condition():
            if self.failure is not None:
                self.raised = self.failure
                raise self.failure
            assert time.monotonic() < end, f"not within {seconds:g} s; checkpoint: {self.checkpoints.read()}"
            time.sleep(0.02)

    def set_back(self, to: Position | None) -> None:
        """Sets the checkpoint to `to`; the rows are not changed."""
        assert to is not None
        if isinstance(to, SnapshotPosition):
            PostgresQueue(self.master, self.pair.prefix, self.replication.master.schema).secure(to)
        with self.slave.transaction():
            self.checkpoints.start_at(to)

    # -- what is seen

    @property
    def checkpoints(self) -> CheckpointStore:
        return CheckpointStore(self.slave, self.pair.prefix, self.schema, self.name)

    @property
    def checkpoint(self) -> Checkpoint:
        found = self.checkpoints.read()
        assert found is not None
        return found

    @property
    def applied(self) -> Position | None:
        """The slave's position, from its checkpoint, wherever that is kept."""
        stored = self.stored_checkpoint.read() if self.pair.slave.checkpoint == "redis" else None
        if stored is not None:
            return stored.position
        found = self.checkpoints.read()
        return found.position if found else None

    @property
    def stored_checkpoint(self) -> StoredCheckpoint:
        """The checkpoint in Redis."""
        return StoredCheckpoint(self.store, self.pair.prefix, self.name)

    def state(self) -> SlaveState:
        found = self.checkpoints.read()
        return found.state if found else SlaveState.UNCONFIGURED

    def tables(self, connection: psycopg.Connection[Any]) -> list[TableName]:
        rows = connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname !~ '^(pg_|information_schema$)' "
            "AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname !~ '^demo_' ORDER BY 1, 2"
        ).fetchall()
        return [TableName(schema, name) for schema, name in rows]

    def rows(self, connection: psycopg.Connection[Any], table: TableName) -> list[str]:
        """Every row as text, sorted bytewise."""
        name = quoted(table.schema, table.name)
        return [row for (row,) in connection.execute(f'SELECT t::text COLLATE "C" FROM {name} t ORDER BY 1').fetchall()]

    def differences(self) -> dict[str, tuple[list[str], list[str]]]:
        """For each different table some rows that only the master has, and some that only the slave has."""
        found = {}
        for table in self.tables(self.master):
            master, slave = self.rows(self.master, table), self.rows(self.slave, table)
            if master != slave:
                only = Counter(master) - Counter(slave), Counter(slave) - Counter(master)
                found[str(table)] = (list(only[0].elements())[:5], list(only[1].elements())[:5])
        return found

    def assert_equal(self, tables: Iterable[TableName] | None = None) -> None:
        """Every replicated table holds the same rows on both sides, compared as canonical texts."""
        names = [resolved.table for resolved in self.replication.resolve(catalog.tables(self.master))]
        for table in tables or names:
            assert rows_of(self.slave, table, self.master) == rows_of(self.master, table, self.master), str(table)

    def close(self) -> None:
        self.master.close()
        self.slave.close()


def rows_of(connection: psycopg.Connection[Any], table: TableName, master: psycopg.Connection[Any]) -> list[str]:
    """The rows of a table as texts, in the master's columns, sorted."""
    shape = catalog.shape(master, table)
    assert shape is not None
    columns = ", ".join(f"{quoted(column.name)}::text" for column in shape.columns)
    there = catalog.shape(connection, table)
    if there is None:
        return ["no such table"]
    only = "" if there.partitioned else "ONLY "
    name = quoted(table.schema, table.name)
    return sorted(str(row) for row in connection.execute(f"SELECT {columns} FROM {only}{name}".encode()).fetchall())
