"""A PostgreSQL master and a MariaDB slave, replicated by the production code."""

import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import psycopg

from sluice import config
from sluice.capture import resources
from sluice.control.checkpoint import CheckpointStore
from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.executor import ThreadExecutor
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.load_snapshot import LoadSnapshot
from sluice.load.loader import load_worker
from sluice.load.selection import Selection
from sluice.load.update import Update
from sluice.model.checkpoint import Checkpoint
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.pair import Pair
from sluice.vendors.mysql import catalog as slave_catalog
from sluice.vendors.mysql.connection import connect as connect_slave
from sluice.vendors.mysql.connection import quoted
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.source.tables_registry import Registry
from tests.rig.applying import Applying
from tests.rig.loaders import in_threads
from tests.waiting import DEADLINE_SECONDS

CONFIG = """
prefix: DEMO_
master: {{conn_id: m, schema: {schema}}}
slaves:
  dr1: {{conn_id: s, vendor: {vendor}, on_drop: drop{slave}}}
tables:
  public.*: {{}}
{lines}apply: {{lease: 2.0, checkpoint_interval: 0.1, stage_above: {stage}, max_batch_changes: {batch}}}
initial: {{block_rows: {block_rows}, parallel: 2, where: {where}}}
"""
T = TypeVar("T")
AS_TEXT = ("json", "jsonb", "interval", "inet", "xml", "time without time zone", "uuid", "numeric", "bit", "character")


@dataclass
class Rig:
    """Both databases and the replication between them."""

    pair: Pair
    redis_url: str
    master: psycopg.Connection[Any]
    slave: Any
    """A session there, of the vendor's own."""
    failure: BaseException | None = None
    raised: BaseException | None = None
    """What was raised of that by an await."""
    vendor: ClassVar[str] = "mysql"

    @staticmethod
    def connect_slave(info: ConnectionInfo) -> Any:
        return connect_slave(info, application="test")

    @classmethod
    def build(
        cls,
        database: Callable[..., ConnectionInfo],
        slave_database: Callable[[], ConnectionInfo],
        redis_url: str,
        folder: Path,
        tables: str,
        *,
        stage: int = 20_000,
        batch: int = 1_000_000,
        block_rows: int = 1_000,
        where: bool = False,
        lines: str = "",
        schema: str = "public",
        **slave: str,
    ) -> Self:
        """`tables`: DDL of the master, whose tables are captured. `lines`: more lines of `tables`. `schema`: of
        Sluice's own objects on the master. `slave`: options."""
        options = "".join(f", {name}: {value}" for name, value in slave.items())
        text = CONFIG.format(
            vendor=cls.vendor,
            slave=options,
            stage=stage,
            batch=batch,
            block_rows=block_rows,
            where=str(where).lower(),
            lines=lines,
            schema=schema,
        )
        (folder / "DEMO.yaml").write_text(text)
        infos = {"m": database(), "s": slave_database()}
        rig = cls(
            Pair.of(config.load("DEMO_"), "dr1", infos),
            redis_url,
            connect(infos["m"], application="test", autocommit=True),
            cls.connect_slave(infos["s"]),
        )
        rig.master.execute(tables)
        rig.capture()
        return rig

    def capture(self) -> None:
        resources.install(self.master, self.pair.prefix, self.schema)
        registry = Registry(self.master, self.pair.prefix, self.schema)
        for resolved in self.pair.replication.resolve(catalog.tables(self.master)):
            if not registry.has(resolved.table):
                registry.register(resolved.table)
            registry.capture(resolved.table)

    # Loading and applying

    def update(self, **choice: Any) -> Update:
        return Update.named(self.pair, f"update {uuid.uuid4().hex[:6]}", Selection.from_dict(choice))

    def begin_load(self, **choice: Any) -> Update:
        """Runs all steps up to TRANSITION."""
        update, store = self.update(**choice), redis_store.connect(self.redis_url)
        steps.begin(update, store)
        steps.create_tables(update)
        steps.plan(update, store, steps.IN_ONE_SNAPSHOT if update.options.read == "snapshot" else "")
        return update

    def load(self, update: Update | None = None, **choice: Any) -> Update:
        """Runs an initial update up to the last block."""
        update = update or self.begin_load(**choice)
        with LoadJob(update) as job, LoadSnapshot(update) as held:
            in_threads(job, partial(load_worker, update), 2, lambda: (job.tick(), held.check()))
        steps.arrive(update, redis_store.connect(self.redis_url))
        return update

    def finish(self, update: Update) -> Any:
        return steps.finish(update)

    def apply(self) -> "Running":
        """An apply in a thread of this process; use it as a context."""
        return Running(self)

    @property
    def schema(self) -> str:
        """The schema of Sluice's own objects on the master."""
        return self.pair.replication.master.schema

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(self.slave, self.pair.prefix, "", "dr1")

    @property
    def checkpoint(self) -> Checkpoint:
        found = self.store.read()
        assert found is not None
        return found

    @property
    def rejects(self) -> RejectStore:
        return RejectStore(self.slave, self.pair.prefix, "", "dr1")

    def await_current(self, seconds: float = DEADLINE_SECONDS) -> None:
        """Returns when the slave is NORMAL and has applied all that the master has committed by now."""
        now = PostgresQueue(self.master, self.pair.prefix, self.schema).take()

        def current() -> bool:
            found = self.checkpoint
            applied = found.position is not None and found.position.covers_all_of(now)
            return applied and found.state == "NORMAL" and not found.catching_up

        self.await_that(current, seconds)

    def await_that(self, condition: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
        """Waits for the condition; raises an error that ended the apply before."""
        end = time.monotonic() + seconds
        while not condition():
            if self.failure is not None:
                self.raised, self.failure = self.failure, None
                raise self.raised
            assert time.monotonic() < end, f"not within {seconds} s; checkpoint: {self.checkpoint}"
            time.sleep(0.02)

    # Comparing, without what is tested

    def differences(self) -> dict[str, tuple[Any, ...]]:
        """For each different table some rows that only the master has, and some that only the slave has."""
        found: dict[str, tuple[Any, ...]] = {}
        for table in self.tables():
            if slave_catalog.shape(self.slave, table) is None:
                found[str(table)] = ("absent on the slave",)
                continue
            master, slave = self.master_rows(table), self.slave_rows(table)
            if master != slave:
                ours = [row for row in master if row not in slave]
                theirs = [row for row in slave if row not in master]
                found[str(table)] = (ours[:3], theirs[:3], len(master), len(slave))
        return found

    def tables(self) -> list[TableName]:
        return [table for table in catalog.tables(self.master) if not table.name.startswith("demo_")]

    def master_rows(self, table: TableName) -> list[tuple[Any, ...]]:
        shape = catalog.shape(self.master, table)
        assert shape is not None
        columns = []
        for column in shape.replicated:
            name = quoted(column.name)
            plain = re.sub(r"\(.*?\)", "", column.type)
            as_text = plain in AS_TEXT or "." in column.type or column.type.endswith("[]")
            columns.append(f"{name}::text" if as_text else name)
        query = f"SELECT {', '.join(columns)} FROM {quoted(table.schema, table.name)}"
        rows = self.master.execute(query.encode(), prepare=False)  # a column's type may change between two calls
        return sorted((tuple(map(_plain, row)) for row in rows), key=repr)

    def slave_rows(self, table: TableName) -> list[tuple[Any, ...]]:
        shape = catalog.shape(self.master, table)
        there = slave_catalog.shape(self.slave, table)
        assert shape is not None and there is not None, table
        columns = []
        for column in shape.replicated:
            own = there.column(column.name).type
            name = quoted(column.name)
            if own.startswith("time("):
                name = f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST({name} AS CHAR)))"
            elif own.startswith("bit"):
                name = f"LPAD(BIN({name}), {own[4:-1]}, '0')"
            elif own.startswith("decimal") or own == "time" or own == "uuid":
                name = f"CAST({name} AS CHAR)"
            columns.append(name)
        place = quoted(table.name) if table.schema == "public" else quoted(table.schema, table.name)
        rows = self.slave.run(f"SELECT {', '.join(columns)} FROM {place}")
        return sorted((tuple(map(_plain, row)) for row in rows), key=repr)

    def close(self) -> None:
        self.master.close()
        self.slave.close()


class CountingExecutor(ThreadExecutor):
    """Counts the windows that it staged."""

    staged = 0

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        self.staged += 1
        return super().map(task, parts, what)


class Running(Applying):
    """A running apply of such a pair."""

    rig: Rig

    def __init__(self, rig: Rig):
        self.executor = CountingExecutor(2)
        super().__init__(rig, self.executor)

    def await_normal_mode(self) -> None:
        """Returns when all is applied and the apply has left safe mode."""
        self.rig.await_current()
        self.rig.await_that(lambda: self.in_normal_mode)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, bool):
        return int(value)
    return value
