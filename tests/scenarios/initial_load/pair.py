"""A master with DbResources and a slave, for scenarios of the initial update."""

import os
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import redis

from initial_load.loaders import in_threads
from sluice import config
from sluice.capture import resources
from sluice.config import Replication
from sluice.coordination import redis_store
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.load_snapshot import LoadSnapshot
from sluice.load.loader import load_worker
from sluice.load.selection import Selection
from sluice.load.update import Update
from sluice.load.worker import LoadReport
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair as Ends
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect, quoted
from sluice.vendors.postgres.source.tables_registry import Registry
from sluice.vendors.postgres.target import control_tables
from sluice.vendors.postgres.target.control_tables import CheckpointStore

HELD = 7
"""Of an advisory lock."""
CONFIG = """
prefix: DEMO_
master: {{conn_id: m, schema: {schema}}}
slaves:
  {name}: {{conn_id: s, schema: {schema}, existing_tables: {policy}{slave_options}}}
tables:
{tables}
initial: {{block_rows: {block_rows}, block_target_seconds: {seconds}, parallel: {parallel}, where: true}}
"""


@dataclass
class Pair:
    """Both databases, the replication between them, and what a test does with them."""

    master_info: ConnectionInfo
    slave_info: ConnectionInfo
    replication: Replication
    store: redis.Redis
    master: psycopg.Connection[Any]
    slave: psycopg.Connection[Any]
    name: str = "dr1"

    def update(self, update_id: str | None = None, **choice: Any) -> Update:
        connections = {"m": self.master_info, "s": self.slave_info}
        return Update.named(
            Ends.of(self.replication, self.name, connections),
            update_id or f"update {uuid.uuid4().hex[:6]}",
            Selection.from_dict(choice),
        )

    @property
    def schema(self) -> str:
        """Of Sluice's own objects on the slave."""
        return self.replication.slaves[self.name].schema

    def with_slave(self, **options: Any) -> "Pair":
        """The same pair with other options of its slave."""
        slaves = {self.name: replace(self.replication.slaves[self.name], **options)}
        return replace(self, replication=replace(self.replication, slaves=slaves))

    def capture(self) -> None:
        """What the DAG's tasks install_resources and reconcile do."""
        prefix, schema = self.replication.prefix, self.replication.master.schema
        resources.install(self.master, prefix, schema)
        registry = Registry(self.master, prefix, schema)
        for resolved in self.replication.resolve(catalog.tables(self.master)):
            if not registry.has(resolved.table):
                registry.register(resolved.table)
            registry.capture(resolved.table)

    def prepare(self, update: Update) -> None:
        """All steps up to TRANSITION."""
        self.capture()
        steps.begin(update, self.store)
        steps.create_tables(update)
        steps.plan(update, self.store, steps.IN_ONE_SNAPSHOT if update.options.read == "snapshot" else "")

    def load(self, update: Update, loaders: int = 2) -> list[LoadReport]:
        """A load job with its loaders in threads; raises what the first failing one raised."""
        with LoadJob(update) as job, LoadSnapshot(update) as held:
            reports = in_threads(job, partial(load_worker, update), loaders, lambda: (job.tick(), held.check()))
        steps.arrive(update, self.store)
        return reports

    def blocks(self, table: str | None = None) -> list[Any]:
        found = control_tables.block_map(self.slave, self.replication.prefix, self.schema, self.name).tables
        return [
            block for name, joined in found.items() for block in joined.blocks if table is None or name.name == table
        ]

    def checkpoint(self) -> CheckpointStore:
        return CheckpointStore(self.slave, self.replication.prefix, self.schema, self.name)

    def state(self) -> SlaveState:
        found = self.checkpoint().read()
        return found.state if found else SlaveState.UNCONFIGURED

    def declare_normal(self) -> None:
        """What the apply does when no change came during the load."""
        with self.slave.transaction():
            self.checkpoint().move(SlaveState.NORMAL)

    def slow_down(self, table: str, seconds: float) -> None:
        """Each row stored on the slave takes that long, so that a load can be met in its middle."""
        self._slow(f"PERFORM pg_sleep({seconds});")
        self.slave.execute(
            f"CREATE TRIGGER slow BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION public.slow()".encode()
        )
        self.slave.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER slow".encode())

    def hold(self, *tables: str) -> "psycopg.Connection[Any]":
        """No row of them is stored on the slave before the session that this returns is closed."""
        holder = connect(self.slave_info, application="holder", autocommit=True)
        holder.execute(f"SELECT pg_advisory_lock({HELD})".encode())
        for table in tables:
            self.slow_down(table, 0)
        self._slow(f"PERFORM pg_advisory_xact_lock_shared({HELD});")
        return holder

    def full_speed(self) -> None:
        """Rows stored from now on take no longer than they do."""
        self._slow("")

    def _slow(self, wait: str) -> None:
        self.slave.execute(
            "CREATE OR REPLACE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS "
            f"'BEGIN {wait} RETURN NEW; END'".encode()
        )

    def assert_equal(self, tables: Iterable[TableName] | None = None) -> None:
        """Every replicated table holds the same rows on both sides, compared as canonical texts."""
        names = [resolved.table for resolved in self.replication.resolve(catalog.tables(self.master))]
        for table in tables or names:
            assert rows_of(self.slave, table, self.master) == rows_of(self.master, table, self.master), str(table)


def rows_of(connection: psycopg.Connection[Any], table: TableName, master: psycopg.Connection[Any]) -> list[str]:
    """The rows of a table, one text each, in the master's columns, sorted."""
    shape = catalog.shape(master, table)
    assert shape is not None
    columns = ", ".join(f"{quoted(column.name)}::text" for column in shape.columns)
    there = catalog.shape(connection, table)
    if there is None:
        return ["no such table"]
    only = "" if there.partitioned else "ONLY "
    name = quoted(table.schema, table.name)
    return sorted(str(row) for row in connection.execute(f"SELECT {columns} FROM {only}{name}".encode()).fetchall())


def make_pair(
    database: Callable[..., ConnectionInfo],
    redis_url: str,
    folder: Path,
    tables: Iterable[str] = ("public.*",),
    *,
    policy: str = "empty",
    block_rows: int = 50,
    seconds: float = 0.5,
    parallel: int = 2,
    role: bool = False,
    master: ConnectionInfo | None = None,
    slave: ConnectionInfo | None = None,
    name: str = "dr1",
    slave_options: str = "",
    schema: str = "public",
) -> Pair:
    """Two empty databases and a replication of `tables`; `master`, `slave` give databases that are there already.

    `name`: the slave's. `slave_options`: YAML, after a comma. `schema`: of Sluice's own objects on both sides.
    """
    lines = "\n".join(f"  '{table}': {{}}" for table in tables)
    text = CONFIG.format(
        policy=policy,
        tables=lines,
        block_rows=block_rows,
        seconds=seconds,
        parallel=parallel,
        name=name,
        slave_options=slave_options,
        schema=schema,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "DEMO.yaml").write_text(text)
    with mock.patch.dict(os.environ, SLUICE_REPLICATIONS=str(folder)):
        replication = config.load("DEMO_")
    master_info, slave_info = master or database(role=role), slave or database(role=role)
    return Pair(
        master_info,
        slave_info,
        replication,
        redis_store.connect(redis_url),
        connect(master_info, application="test", autocommit=True),
        connect(slave_info, application="test", autocommit=True),
        name,
    )
