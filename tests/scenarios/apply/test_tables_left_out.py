"""A table that joined and is not loaded: nothing of it is applied, in any mode, and everything else is."""

from collections.abc import Callable
from typing import Any

import pytest

from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from sluice.vendors.postgres import catalog
from tests.rig.rig import Rig

READY = "CREATE TABLE public.t (id int PRIMARY KEY, v text)"
JOINING = TableName("public", "Späte")

TRAFFIC = [
    "UPDATE public.\"Späte\" SET v = 'new' WHERE id <= 10",
    "UPDATE public.t SET v = 'b' WHERE id = 1",
    'DELETE FROM public."Späte" WHERE id = 11',
    'UPDATE public."Späte" SET id = id + 10000 WHERE id BETWEEN 20 AND 29',
    "UPDATE public.t SET id = id + 10000 WHERE id BETWEEN 20 AND 29",
    "INSERT INTO public.\"Späte\" VALUES (5000, 'fresh')",
    "INSERT INTO public.t VALUES (5000, 'fresh')",
    'ALTER TABLE public."Späte" ADD COLUMN w int DEFAULT 3',
    'UPDATE public."Späte" SET w = 4 WHERE id = 12',
    'TRUNCATE public."Späte"',
    "DELETE FROM public.t WHERE id = 5",
    "INSERT INTO public.\"Späte\" VALUES (1, 'after', 1)",
]

MODES: dict[str, dict[str, Any]] = {
    "strict": {},
    "safe mode": {"safe": True},
    "rejects": {"policy": "reject"},
    "checkpoint in Redis": {"kept": "redis"},
    "slices": {"batch": 7, "stage": 7},
    "staged": {"stage": 5},
    "foreign keys act": {"slave_role": True},
}


def joins(pair: Rig, table: TableName = JOINING, rows: int = 100) -> None:
    """Registers and captures a table that has rows already."""
    name = f'public."{table.name}"'
    pair.master.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)".encode())
    pair.master.execute(f"INSERT INTO {name} SELECT g, 'old' FROM generate_series(1, {rows}) g".encode())
    pair.capture_table(table.name)


def states(pair: Rig) -> dict[TableName, TableState]:
    return dict(pair.checkpoint.tables.not_ready)


def shown(pair: Rig, table: TableName) -> bool:
    return catalog.shape(pair.slave, table) is not None


def others_equal(pair: Rig) -> None:
    table = TableName("public", "t")
    assert pair.rows(pair.master, table) == pair.rows(pair.slave, table)


def filled(pair: Rig) -> None:
    pair.master.execute("INSERT INTO public.t SELECT g, 'a' FROM generate_series(1, 100) g")


def run(pair: Rig, statements: list[str]) -> None:
    for statement in statements:
        pair.master.execute(statement.encode())


@pytest.mark.one_in(8)
@pytest.mark.parametrize("mode", MODES)
def test_changes_of_a_table_that_is_not_loaded_are_left_out(rig: Callable[..., Rig], mode: str) -> None:
    pair = rig(READY, **MODES[mode])
    filled(pair)
    with pair.apply() as running:
        pair.await_applied(running)
        joins(pair)
        run(pair, TRAFFIC)
        pair.await_applied(running)
    # Anew, with all of it in one window.
    joins(pair, TableName("public", "Later"))
    run(pair, [statement.replace("Späte", "Later") for statement in TRAFFIC if "public.t " not in statement])
    run(pair, ["UPDATE public.t SET v = 'c' WHERE id <= 50"])
    with pair.apply() as running:
        pair.await_applied(running)
        assert not shown(pair, JOINING)
        others_equal(pair)
    assert states(pair) == {JOINING: TableState.ABSENT, TableName("public", "Later"): TableState.ABSENT}
    assert pair.checkpoint.state is SlaveState.NORMAL
    count = pair.slave.execute(
        "SELECT to_regclass('public.demo_rejects') IS NULL OR NOT EXISTS (TABLE public.demo_rejects)"
    )
    assert count.fetchone() == (True,)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kept", ["slave", "redis"])
def test_a_restart_and_an_empty_redis_do_not_make_it_ready(rig: Callable[..., Rig], kept: str) -> None:
    pair = rig(READY, kept=kept, interval=60.0)
    filled(pair)
    with pair.apply() as running:
        joins(pair)
        run(pair, TRAFFIC[:3])
        pair.await_applied(running)
    redis_store.connect(pair.redis_url).flushdb()
    run(pair, TRAFFIC[3:])
    with pair.apply() as running:
        pair.await_applied(running)
        assert running.loop.mode.on, "within the time after a restart in which every change is applied idempotently"
        others_equal(pair)
        assert not shown(pair, JOINING)
    assert states(pair) == {JOINING: TableState.ABSENT}


def test_it_keeps_its_state_under_another_name_and_loses_it_with_the_table(rig: Callable[..., Rig]) -> None:
    pair = rig(READY)
    with pair.apply():
        joins(pair)
        pair.master.execute('ALTER TABLE public."Späte" RENAME TO other')
        pair.master.execute("UPDATE public.other SET v = 'new'")
        pair.await_current()
        assert states(pair) == {TableName("public", "other"): TableState.ABSENT}
        # A table of the slave's own that has its name is none of ours.
        pair.slave.execute("CREATE TABLE public.other (mine int)")
        pair.master.execute("DROP TABLE public.other")
        pair.await_current()
        assert states(pair) == {} and shown(pair, TableName("public", "other"))


@pytest.mark.long
def test_a_table_made_again_has_all_its_rows_in_the_stream_and_is_ready(rig: Callable[..., Rig]) -> None:
    pair = rig(READY)
    with pair.apply():
        joins(pair)
        pair.await_current()
        with pair.master.transaction():
            pair.master.execute('DROP TABLE public."Späte"')
            pair.master.execute(
                "CREATE TABLE public.\"Späte\" AS SELECT g AS id, 'x' AS v FROM generate_series(1, 9) g"
            )
            pair.master.execute('INSERT INTO public."Späte" VALUES (10, NULL)')
        pair.await_current()
        assert states(pair) == {}
        assert pair.differences() == {}


@pytest.mark.long
def test_a_table_that_left_and_joins_again_is_left_out_and_its_rows_stay(rig: Callable[..., Rig]) -> None:
    pair = rig(READY, policy="reject")
    filled(pair)
    table = TableName("public", "t")
    with pair.apply() as running:
        pair.await_current()
        pair.await_normal_mode(running)
        pair.slave.execute("DELETE FROM public.t WHERE id = 1")
        pair.master.execute("UPDATE public.t SET v = 'rejected' WHERE id = 1")
        pair.await_current()
        before = pair.rows(pair.slave, table)
        pair.master.execute("DELETE FROM public.demo_tables WHERE tablename = 't'")
        pair.master.execute("UPDATE public.t SET v = 'missed' WHERE id = 2")
        pair.capture_table("t")
        pair.master.execute("UPDATE public.t SET v = 'left out' WHERE id IN (2, 3)")
        pair.await_current()
        assert states(pair) == {table: TableState.ABSENT}
        assert pair.rows(pair.slave, table) == before
        assert pair.slave.execute("SELECT DISTINCT status FROM public.demo_rejects").fetchall() == [("dropped",)]
        # Nor does it matter that it is empty when it joins: the slave's rows are older.
        pair.master.execute("DELETE FROM public.demo_tables WHERE tablename = 't'")
        pair.master.execute("TRUNCATE public.t")
        pair.capture_table("t")
        pair.await_current()
        assert states(pair) == {table: TableState.ABSENT}


def test_rows_from_before_the_capture_make_it_incomplete_and_none_make_it_complete(rig: Callable[..., Rig]) -> None:
    pair = rig(READY)
    parted = (
        "CREATE TABLE public.parted (id int) PARTITION BY RANGE (id); CREATE TABLE public.p PARTITION OF public.parted "
    )
    pair.master.execute(f"{parted} FOR VALUES FROM (1) TO (9)")
    pair.master.execute("CREATE TABLE public.bare (id int)")
    pair.master.execute("INSERT INTO public.p VALUES (1)")
    with pair.apply():
        for table in ("parted", "bare"):
            pair.capture_table(table)
        pair.master.execute("INSERT INTO public.bare VALUES (1)")
        pair.await_current()
        assert states(pair) == {TableName("public", "parted"): TableState.ABSENT}
        assert pair.rows(pair.slave, TableName("public", "bare")) == ["(1)"]


def test_a_slave_of_an_earlier_release_has_all_its_tables_ready(rig: Callable[..., Rig]) -> None:
    pair = rig(READY)
    filled(pair)
    pair.slave.execute("ALTER TABLE public.demo_checkpoint DROP COLUMN tables")
    assert len(pair.checkpoint.tables) == 0
    with pair.apply():
        pair.await_current()
        others_equal(pair)
        joins(pair)
        pair.await_current()
    assert states(pair) == {JOINING: TableState.ABSENT}


def test_nothing_written_by_hand_makes_up_for_it(rig: Callable[..., Rig]) -> None:
    """The slave has some of the rows, under the same name: they are older than the join, and stay."""
    pair = rig(READY)
    pair.slave.execute("CREATE TABLE public.\"Späte\" AS SELECT 1 AS id, 'by hand' AS v")
    with pair.apply():
        joins(pair)
        run(pair, TRAFFIC[:1])
        pair.await_current()
    assert pair.rows(pair.slave, JOINING) == ['(1,"by hand")']
