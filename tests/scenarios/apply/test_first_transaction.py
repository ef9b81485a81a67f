"""A person removes a transaction that never fits from a slave's queue: its tables wait for a load, others continue."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.airflow import steps_removal
from sluice.airflow.task_context import TaskContext
from sluice.apply import waiting_changes
from sluice.apply.waiting_changes import Removed
from sluice.coordination.gate import ADMIN, ERROR, Gate
from sluice.coordination.lease import Lease
from sluice.coordination.records import Events, FailoverClaim
from sluice.database.conflicts import Drift
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from sluice.vendors.postgres.source.resources import PostgresCapture
from tests.airflow_connections import connect_airflow
from tests.errors import raises_code
from tests.rig.rig import Rig

ODD = TableName("public", 'It\'s "odd" %s')
TABLES = """
CREATE TABLE public.good (id int PRIMARY KEY, v text);
CREATE TABLE public.bad (id int PRIMARY KEY, v text);
CREATE TABLE public."It's ""odd"" %s" (id int PRIMARY KEY, v text);
"""
BAD = TableName("public", "bad")


def remove(pair: Rig) -> Removed:
    return waiting_changes.remove(pair.pair, pair.store, "olga", "it never fits", "test")


def inconsistent(pair: Rig) -> set[TableName]:
    states = pair.checkpoint.tables.not_ready
    assert set(states.values()) <= {TableState.INCONSISTENT}
    return set(states)


def stuck(pair: Rig) -> None:
    """The apply stops at a transaction that changes `bad` and the table with the odd name; one of `good` follows it."""
    pair.master.execute("INSERT INTO public.bad VALUES (1, 'a'), (2, 'b')")
    with pair.apply() as running:
        pair.await_current()
        pair.await_that(lambda: running.in_normal_mode)
        pair.slave.execute("DELETE FROM public.bad WHERE id = 1")
        with pair.master.transaction():
            pair.master.execute("UPDATE public.bad SET v = 'c' WHERE id = 1")
            pair.master.execute(b'INSERT INTO public."It\'s ""odd"" %s" VALUES (1, \'x\')')
        pair.master.execute("INSERT INTO public.good VALUES (1, 'after')")
        pair.master.execute("UPDATE public.bad SET v = 'd' WHERE id = 2")
        with pytest.raises(Drift):
            pair.await_current()


@pytest.mark.parametrize("kept", ["slave", pytest.param("redis", marks=pytest.mark.long)])
def test_its_tables_wait_for_a_load_and_all_others_go_on(rig: Callable[..., Rig], kept: str) -> None:
    pair = rig(TABLES, kept=kept)
    stuck(pair)
    removed = remove(pair)
    assert {one.table for one in removed.tables} == {BAD, ODD} == inconsistent(pair)
    assert "public.bad (1 change: UPDATE)" in str(removed) and "initial_update" in str(removed)
    assert "olga removed the first transaction" in Events(pair.store, pair.pair.prefix, "dr1").read()[-1].text
    with pair.apply():
        pair.await_current()
    assert pair.checkpoint.state is SlaveState.NORMAL
    assert pair.slave.execute("SELECT v FROM public.good").fetchall() == [("after",)]
    assert pair.slave.execute("SELECT id, v FROM public.bad").fetchall() == [(2, "b")], "left out, what followed too"
    Gate(pair.store, pair.pair.prefix, "dr1").close(ADMIN, "olga", "again")
    with raises_code("no-transaction-to-remove", match="no transaction waits"):
        remove(pair)


@pytest.mark.long
def test_a_second_removal_takes_the_next_one_that_would_be_applied(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    stuck(pair)
    remove(pair)
    assert [one.table.name for one in remove(pair).tables] == ["good"]
    assert inconsistent(pair) == {BAD, ODD, TableName("public", "good")}


def test_a_table_that_is_being_loaded_is_not_taken_out(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    pair.master.execute("INSERT INTO public.bad VALUES (1, 'a')")
    Gate(pair.store, pair.pair.prefix, "dr1").close(ADMIN, "olga", "x")
    with pair.slave.transaction():
        pair.checkpoints.put_tables(pair.checkpoint.tables.load([BAD], "{}"))
    with raises_code("no-transaction-to-remove", match=r"public\.bad is being loaded"):
        remove(pair)


def test_nothing_is_removed_while_the_gate_is_open(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    pair.master.execute("INSERT INTO public.good VALUES (1, 'a')")
    with raises_code("gate-open"):
        remove(pair)
    Gate(pair.store, pair.pair.prefix, "dr1").close(ERROR, "apply", "x")
    assert inconsistent(pair) == set()


def task(pair: Rig, monkeypatch: pytest.MonkeyPatch, **params: Any) -> TaskContext:
    connect_airflow(monkeypatch, "m", pair.pair.master_info)
    connect_airflow(monkeypatch, "s", pair.pair.slave_info)
    monkeypatch.setenv("SLUICE_REDIS_URL", pair.redis_url)
    context: dict[str, Any] = {
        "dag": SimpleNamespace(dag_id="uninstall_resources"),
        "dag_run": SimpleNamespace(triggering_user_name="olga"),
        "params": params,
    }
    return TaskContext(pair.pair.replication, "dr1", context, ("dr1",))


def test_the_dag_removes_it_and_needs_a_reason(rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> None:
    pair = rig(TABLES)
    pair.master.execute("INSERT INTO public.good VALUES (1, 'a')")
    Gate(pair.store, pair.pair.prefix, "dr1").close(ERROR, "apply", "x")
    with raises_code("reason-missing"):
        steps_removal.remove.body(task(pair, monkeypatch, which="first", reason=" "))
    said = steps_removal.remove.body(task(pair, monkeypatch, which="first", reason="it hangs"))
    assert "public.good (1 change: INSERT)" in said


def test_a_prefix_is_uninstalled_twice_and_its_tables_stay(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = rig(TABLES)
    pair.master.execute("INSERT INTO public.good VALUES (1, 'a')")
    with raises_code("not-confirmed"):
        steps_removal.check_removal.body(task(pair, monkeypatch, confirm="SHOP_"))
    confirmed = task(pair, monkeypatch, confirm="demo_")
    lease = Lease(pair.store, pair.pair.prefix, "dr1", 10.0)
    lease.acquire()
    with raises_code("applies-running", match="dr1"):
        steps_removal.check_removal.body(confirmed)
    lease.release()
    FailoverClaim(pair.store, pair.pair.prefix).take("run 1", "dr1")
    with raises_code("failover-under-way", match="a failover to dr1"):
        steps_removal.check_removal.body(confirmed)
    for _ in range(2):
        for step in (steps_removal.leave_slaves, steps_removal.uninstall, steps_removal.forget):
            step.body(confirmed)
    assert PostgresCapture(pair.master, pair.pair.prefix, "public").installed() is None
    assert pair.master.execute("SELECT count(*) FROM public.good").fetchone() == (1,)
    there = "SELECT to_regclass('public.demo_checkpoint') IS NULL, to_regclass('public.good') IS NULL"
    assert pair.slave.execute(there).fetchone() == (True, False)
    assert not list(pair.store.scan_iter("sluice:DEMO_:*"))
    pair.master.execute("INSERT INTO public.good VALUES (2, 'b')")
