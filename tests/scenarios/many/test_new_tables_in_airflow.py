"""A filled table joins in Airflow: the plan says so, one slave loads it by itself, another waits for a person."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from devstack.stack import Stack
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.coordination.records import LoadStarted
from sluice.model.checkpoint import Checkpoint
from sluice.model.joining import StartedLoad
from sluice.model.names import Prefix, TableName
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from tests.scenarios.initial_files.runs import DAG, Run, make_tables
from tests.stacks import running_stack, until

pytestmark = pytest.mark.long
CONFIG = """
prefix: DEMO_
master: {conn_id: demo_master, vendor: postgres}
slaves:
  dr1: {conn_id: demo_dr1}
  dr2: {conn_id: demo_dr2, new_tables: wait}
tables:
  shop.*: {}
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(CONFIG, slaves=["dr1", "dr2"]) as made:
        make_tables(made, 1_000)
        made.airflow.api().await_dags([DAG, "cdc_apply", "reconcile_tables"])
        for slave in ("dr1", "dr2"):
            Run.begun(made, slave=slave).await_state("settle", "success")
        yield made


@contextmanager
def on(stack: Stack, place: str) -> Iterator["psycopg.Connection[Any]"]:
    with connect(stack.connection(place), application="test", autocommit=True) as connection:
        yield connection


def checkpoint(stack: Stack, slave: str) -> Checkpoint:
    with on(stack, slave) as connection:
        found = CheckpointStore(connection, Prefix("DEMO_"), "sluice", slave).read()
    assert found is not None
    return found


def filled(stack: Stack, table: str) -> None:
    with stack.master.connect("demo", "demo") as master:
        # Made with its rows, it joins by a load, also where event triggers tell of it.
        rows = "SELECT g AS id, 'old'::text AS v FROM generate_series(1, 1000) g"
        master.execute(f"CREATE TABLE shop.{table} AS {rows}; ALTER TABLE shop.{table} ADD PRIMARY KEY (id)".encode())


def rows(connection: "psycopg.Connection[Any]", table: str) -> list[Any]:
    return connection.execute(f"SELECT id, v FROM shop.{table} ORDER BY id".encode()).fetchall()


def equal(stack: Stack, slave: str, table: str) -> bool:
    with on(stack, slave) as there, stack.master.connect("demo", "demo") as master:
        made = there.execute("SELECT to_regclass(%s) IS NOT NULL", [f"shop.{table}"]).fetchone() == (True,)
        return made and rows(there, table) == rows(master, table)


def started(stack: Stack, slave: str) -> list[str]:
    """The runs that load new tables of a slave."""
    runs = stack.airflow.api().get(f"dags/{DAG}/dagRuns", limit=100)["dag_runs"]
    return [run["dag_run_id"] for run in runs if run["dag_run_id"].startswith(f"new_tables_DEMO__{slave}_")]


def test_reconcile_tables_says_what_joins_and_starts_its_load(stack: Stack) -> None:
    filled(stack, "coupons")
    api = stack.airflow.api()
    run = api.trigger("reconcile_tables", {"prefix": "DEMO_"})
    until(lambda: api.run_state("reconcile_tables", run) in ("success", "failed"), 300)
    plan = api.task_log("reconcile_tables", run, "show_plan", 1)
    assert "shop.coupons joins with 1,000 rows on the master" in plan
    assert "dr1 lacks them: the task load_new_tables starts an initial_update of this table" in plan
    by_hand = 'Start the DAG initial_update with prefix DEMO_, slave dr2 and tables ["shop.coupons"].'
    assert f"dr2 lacks them: new_tables is wait. {by_hand}" in plan
    assert by_hand in api.task_log("reconcile_tables", run, "new_tables", 1)
    assert api.run_state("reconcile_tables", run) == "success"
    (load,) = started(stack, "dr1")
    said = LoadStarted(redis_store.connect(stack.redis_url), Prefix("DEMO_"), "dr1")
    assert said.read() == StartedLoad(load, (TableName("shop", "coupons"),))
    with stack.master.connect("demo", "demo") as master:
        master.execute("UPDATE shop.coupons SET v = 'new' WHERE id <= 10")
    Run(stack, load).await_state("settle", "success")
    assert said.read() is None
    until(lambda: equal(stack, "dr1", "coupons"))
    assert checkpoint(stack, "dr1").state is checkpoint(stack, "dr2").state is SlaveState.NORMAL
    assert list(checkpoint(stack, "dr2").tables) == [TableName("shop", "coupons")]
    assert started(stack, "dr2") == []


def test_an_update_of_one_slave_that_registers_a_table_has_the_other_load_it(stack: Stack) -> None:
    filled(stack, "gifts")
    update = Run.begun(stack, slave="dr2", tables=["shop.coupons"])  # type: ignore[arg-type]
    update.await_state("load_new_tables", "success")
    until(lambda: len(started(stack, "dr1")) == 2)
    with stack.master.connect("demo", "demo") as master:
        master.execute("UPDATE shop.gifts SET v = 'new' WHERE id <= 10")
        master.execute("UPDATE shop.coupons SET v = 'newer' WHERE id <= 20")
    update.await_state("settle", "success")
    for slave, table in (("dr1", "gifts"), ("dr1", "coupons"), ("dr2", "coupons")):
        until(lambda slave=slave, table=table: equal(stack, slave, table), 300)  # type: ignore[misc]
    assert 'slave dr2 and tables ["shop.gifts"]' in update.log("remaining_tables")
    assert list(checkpoint(stack, "dr2").tables) == [TableName("shop", "gifts")]
    until(lambda: checkpoint(stack, "dr1").state is SlaveState.NORMAL, 300)
    assert list(checkpoint(stack, "dr1").tables) == []
