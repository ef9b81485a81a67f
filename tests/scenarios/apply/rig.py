"""A master and a slave with the same tables, captured from the start, and an apply between them."""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from sluice import config
from sluice.apply.apply_loop import ApplyLoop
from sluice.apply.executor import ThreadExecutor
from sluice.capture import resources
from sluice.coordination import redis_store
from sluice.model.checkpoint import Checkpoint
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair
from sluice.vendors.postgres.connection import connect, quoted
from sluice.vendors.postgres.source import position
from sluice.vendors.postgres.source.tables_registry import Registry
from sluice.vendors.postgres.target.control_tables import CheckpointStore

CONFIG = """
prefix: DEMO_
master: {conn_id: m, schema: public}
slaves:
  dr1: {conn_id: s, schema: public, on_conflict: POLICY, safe_mode: SAFE, compare_values: COMPARE, checkpoint: KEPT}
tables:
  public.*: {RULE}
VERIFY
apply: {lease: 2.0, checkpoint_interval: INTERVAL, max_batch_changes: BATCH, stage_above: STAGE}
"""


@dataclass
class Rig:
    """Two databases and what is needed to apply from one to the other."""

    pair: Pair
    redis_url: str
    master: psycopg.Connection[Any]
    slave: psycopg.Connection[Any]
    failure: BaseException | None = None
    """What ended the apply that runs, or ran last."""
    raised: BaseException | None = None
    """What was raised of that by an await."""

    @classmethod
    def build(
        cls,
        database: Callable[..., ConnectionInfo],
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

        `slave_role`: the slave's account is no superuser.
        """
        values = {
            "SAFE": str(safe).lower(),
            "INTERVAL": str(interval),
            "BATCH": str(batch),
            "STAGE": str(stage),
            "POLICY": policy,
            "COMPARE": str(compare).lower(),
            "RULE": rule,
            "KEPT": kept,
            "VERIFY": f'verify: {{mask: "{mask}"}}' if mask else "",
        }
        text = CONFIG
        for word, value in values.items():
            text = text.replace(word, value)
        if safe:  # under which nothing ever conflicts
            text = text.replace(f"on_conflict: {policy}, ", "")
        if safe or policy == "overwrite":  # under which nothing is compared
            text = text.replace(f"compare_values: {str(compare).lower()}, ", "")
        (folder / "DEMO.yaml").write_text(text)
        infos = {"m": database(), "s": database(role=True) if slave_role else database()}
        pair = Pair.of(config.load("DEMO_"), "dr1", infos)
        rig = cls(
            pair,
            redis_url,
            connect(infos["m"], application="test", autocommit=True),
            connect(infos["s"], application="test", autocommit=True),
        )
        rig.begin(tables)
        return rig

    def begin(self, tables: str) -> None:
        """From two empty databases on: the DDL, capture, the state NORMAL."""
        for connection in (self.master, self.slave):
            connection.execute(tables)
        self.install()
        with self.slave.transaction():
            store = self.store
            store.ensure()
            store.move(SlaveState.INITIAL)
            store.move(SlaveState.TRANSITION)
            store.start_at(position.take(self.master, self.pair.prefix, "public"))
            store.move(SlaveState.NORMAL)

    def install(self) -> None:
        """Captures every table."""
        resources.install(self.master, self.pair.prefix, "public")
        for table in self.tables(self.master):
            self.capture(table.name, table.schema)

    def capture(self, table: str, schema: str = "public") -> None:
        """Registers a table and makes its triggers."""
        registry = Registry(self.master, self.pair.prefix, "public")
        registry.register(TableName(schema, table))
        registry.capture(TableName(schema, table))

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(self.slave, self.pair.prefix, "public", "dr1")

    @property
    def checkpoint(self) -> Checkpoint:
        found = self.store.read()
        assert found is not None
        return found

    def apply(self, **options: Any) -> "Running":
        """An apply in a thread of this process; use it as a context."""
        return Running(self, **options)

    def await_current(self, seconds: float = 120.0) -> None:
        """Returns when the slave has applied all that the master has committed by now."""
        now = position.take(self.master, self.pair.prefix, "public")
        self.await_that(lambda: bool((p := self.checkpoint.position) and p.covers_all_of(now)), seconds)

    def await_applied(self, running: "Running", seconds: float = 120.0) -> None:
        """The same, wherever the apply keeps its checkpoint."""
        now = position.take(self.master, self.pair.prefix, "public")
        self.await_that(lambda: bool((seen := running.loop.seen) and seen.covers_all_of(now)), seconds)

    def set_back(self, to: Position | None) -> None:
        """The checkpoint is what it was at `to`; the rows stay as they are."""
        assert to is not None
        with self.slave.transaction():
            self.store.start_at(to)

    def await_normal_mode(self, running: "Running") -> None:
        """Returns when all is applied and changes must match the slave's rows."""
        self.await_current()
        self.await_that(lambda: running.in_normal_mode)

    def await_that(self, condition: Callable[[], bool], seconds: float = 120.0) -> None:
        """Raises what ended the apply, should it end before the condition holds."""
        end = time.monotonic() + seconds
        while not condition():
            if self.failure is not None:
                self.raised = self.failure
                raise self.failure
            assert time.monotonic() < end, f"not within {seconds} s; checkpoint: {self.checkpoint}"
            time.sleep(0.02)

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
        """Of each table that differs the rows only on the master and only on the slave."""
        found = {}
        for table in self.tables(self.master):
            master, slave = self.rows(self.master, table), self.rows(self.slave, table)
            if master != slave:
                found[str(table)] = (_minus(master, slave), _minus(slave, master))
        return found

    def close(self) -> None:
        self.master.close()
        self.slave.close()


class Running(AbstractContextManager["Running"]):
    """An apply that runs in a thread. What ended it is raised by an await of the rig, else on leaving."""

    def __init__(self, rig: Rig, parallelism: int = 2):
        self.rig = rig
        self.stop = threading.Event()
        self.loop = ApplyLoop(rig.pair, redis_store.connect(rig.redis_url), ThreadExecutor(parallelism), self.stop)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.failure: BaseException | None = None

    def __enter__(self) -> "Running":
        self.rig.failure = None
        self.thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.stop.set()
        self.thread.join(timeout=60)
        assert not self.thread.is_alive(), "the apply did not stop"
        if error is None and self.failure is not None and self.failure is not self.rig.raised:
            raise self.failure

    @property
    def in_normal_mode(self) -> bool:
        """Whether it has taken over, which decides the mode, and safe mode is over."""
        checkpoint = self.loop.checkpoint
        told = checkpoint is not None and self.loop.report.status.read().get("epoch") == checkpoint.epoch
        return told and not self.loop.mode.on

    def _run(self) -> None:
        try:
            self.loop.run()
        except BaseException as error:
            self.failure = self.rig.failure = error


def _minus(one: Iterable[str], other: Iterable[str]) -> list[str]:
    rest = list(other)
    only = []
    for row in one:
        if row in rest:
            rest.remove(row)
        else:
            only.append(row)
    return only[:5]
