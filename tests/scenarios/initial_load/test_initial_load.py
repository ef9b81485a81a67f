"""A quiet master: loaded in blocks, restarted, canceled, refused."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from sluice.coordination.gate import Gate
from sluice.errors import Terminal
from sluice.executor import ThreadExecutor
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.load_ownership import LoadEnded
from sluice.load.loader import load_worker
from sluice.load.progress import progress
from sluice.load.steps import UpdateUnderWay
from sluice.model.blocks import BlockState
from sluice.model.slave_state import MOVES, ForbiddenMove, SlaveState
from sluice.pair import ConnectionsOutdated
from sluice.vendors.postgres.connection import connect
from spark_jobs import load
from tests.errors import raises_code
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig
from tests.waiting import until

T = TypeVar("T")


def test_tables_are_made_and_loaded_in_blocks(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=70)
    pair.master.execute("CREATE TABLE public.a (id bigint PRIMARY KEY, t text)")
    pair.master.execute("INSERT INTO public.a SELECT g, 'row ' || g FROM generate_series(1, 1000) g")
    pair.master.execute("CREATE TABLE public.b (x int, y text)")
    pair.master.execute("INSERT INTO public.b SELECT g % 3, NULL FROM generate_series(1, 500) g")
    pair.master.execute("CREATE TABLE public.empty (id uuid PRIMARY KEY)")
    update = pair.update("first")
    pair.prepare(update)
    assert pair.state() is SlaveState.TRANSITION
    assert Gate(pair.store, update.prefix, "dr1").closures() == []
    reports = pair.load(update)
    assert sum(report.rows for report in reports) == 1500
    pair.assert_equal()
    found = pair.blocks()
    assert all(block.state is BlockState.STORED and block.marker for block in found)
    assert len([block for block in found if block.table.name == "a"]) > 2
    assert len([block for block in found if block.table.name == "b"]) == 1
    assert pair.load(update)[0].blocks == 0
    pair.declare_normal()
    done = steps.finish(update)
    assert done.left_out == []


class Named(ThreadExecutor):
    """Records the names of the jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        self.names.append(what)
        return super().map(task, parts, what)


@pytest.mark.long
def test_a_loader_works_in_turns_each_named_after_the_block_that_it_begins_with(
    pair_of: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "TURN_SECONDS", 0.0)
    pair = pair_of(block_rows=500, seconds=60.0)  # the next blocks are larger: there are four at least
    pair.master.execute("CREATE TABLE public.orders (id int PRIMARY KEY)")
    pair.master.execute("INSERT INTO public.orders SELECT generate_series(1, 40000); ANALYZE public.orders")
    update = pair.update()
    pair.prepare(update)
    executor = Named()
    load.load_through_outages(update, executor, threading.Event(), load.stores(update))
    pair.assert_equal()
    assert executor.names[:2] == ["load public.orders 1/80", "load public.orders 2/80"]
    assert len(executor.names) >= len(pair.blocks()) >= 4, "each turn is a job"
    numbers = [int(name.split(" ")[2].split("/")[0]) for name in executor.names if " " in name]
    assert max(numbers) >= 3
    assert {name for name in executor.names if " " not in name} <= {"load"}, "nothing was left to begin"


class AfterTurns(ThreadExecutor):
    """Calls a function before a loader's turn of that number."""

    def __init__(self, turns: int, act: Callable[[], object]):
        super().__init__()
        self._left = turns
        self._act = act

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        self._left -= 1
        if self._left == 0:
            self._act()
        return super().map(task, parts, what)


class Full(ThreadExecutor):
    """Has no free slot until `free` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.waits = "Spark at sc://spark:15002 runs nothing of it: all slots are taken"

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        self.free.wait()
        self.waits = ""
        return super().map(task, parts, what)


@pytest.mark.long
def test_a_load_that_gets_no_slot_says_so_on_the_slave_until_it_has_one(
    pair_of: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(load, "TICK_SECONDS", 0.02)
    pair = pair_of()
    pair.master.execute("CREATE TABLE public.orders (id int PRIMARY KEY)")
    pair.master.execute("INSERT INTO public.orders SELECT generate_series(1, 1000)")
    update, executor = pair.update(), Full()
    pair.prepare(update)
    begins = f"Initial update {update.update_id}"
    loading = Background(lambda: load.load_through_outages(update, executor, threading.Event(), load.stores(update)))
    try:
        until(lambda: pair.checkpoint.message == f"{begins} waits: {executor.waits}")
    finally:
        executor.free.set()
    assert loading.end() is None
    assert pair.checkpoint.message == f"{begins} is loading"
    pair.assert_equal()


@pytest.fixture
def by_a_role(pair_of: MakePair, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Makes each turn of a loader connect again; the slave's account can change its own password."""
    monkeypatch.setattr(load, "TURN_SECONDS", 0.0)
    pair = pair_of(block_rows=500, seconds=0.05, role=True, parallel=1)
    pair.master.execute("CREATE TABLE public.orders (id int PRIMARY KEY)")
    pair.master.execute("INSERT INTO public.orders SELECT generate_series(1, 20000); ANALYZE public.orders")
    return pair


def change_password(pair: Rig) -> None:
    pair.slave.execute("ALTER ROLE CURRENT_USER PASSWORD 'the new one'")


@pytest.mark.long
def test_a_load_whose_password_was_changed_ends_for_a_job_that_goes_on_with_the_new_one(by_a_role: Rig) -> None:
    pair, update = by_a_role, by_a_role.update()
    pair.prepare(update)
    executor = AfterTurns(3, lambda: change_password(pair))
    with pytest.raises(ConnectionsOutdated, match=r"password authentication failed.* Airflow has them now"):
        load.load_through_outages(update, executor, threading.Event(), load.stores(update))
    stored = len(pair.blocks())
    assert stored >= 2
    later = replace(update, slave_info=replace(pair.slave_info, password="the new one"))
    load.load_through_outages(later, ThreadExecutor(), threading.Event(), load.stores(later))
    pair.assert_equal()


def test_executors_that_were_never_let_in_need_a_person(by_a_role: Rig) -> None:
    pair, update = by_a_role, by_a_role.update()
    pair.prepare(update)
    executor = AfterTurns(1, lambda: change_password(pair))
    with pytest.raises(Terminal, match="password authentication failed"):
        load.load_through_outages(update, executor, threading.Event(), load.stores(update))


@pytest.mark.long
def test_steps_may_run_again_and_another_update_waits_its_turn(pair_of: MakePair) -> None:
    pair = pair_of()
    pair.master.execute("CREATE TABLE public.a (id bigint PRIMARY KEY, t text)")
    pair.master.execute("INSERT INTO public.a SELECT g, 'row ' || g FROM generate_series(1, 300) g")
    pair.capture()
    update, other = pair.update("first"), pair.update("second")
    assert steps.begin(update, pair.store)
    assert not steps.begin(update, pair.store)
    assert [closure.name for closure in Gate(pair.store, update.prefix, "dr1").closures()] == ["initial update"]
    with pytest.raises(ForbiddenMove, match="Cancel the initial update"):
        steps.begin(other, pair.store)
    assert len(steps.create_tables(update)) == 1
    assert steps.create_tables(update) == []
    steps.plan(update, pair.store)
    assert steps.plan(update, pair.store) == 1
    assert steps.create_tables(update) == []
    pair.load(update)
    assert not steps.begin(update, pair.store)
    assert steps.create_tables(update) == []
    assert pair.load(update)[0].rows == 0
    with pytest.raises(ForbiddenMove):
        steps.begin(other, pair.store)
    pair.assert_equal()
    pair.declare_normal()
    assert not steps.begin(update, pair.store)
    assert steps.begin(other, pair.store)
    assert pair.state() is SlaveState.INITIAL
    assert pair.blocks() == []
    with pytest.raises(LoadEnded, match="INITIAL"):
        pair.load(update)


@pytest.mark.long
def test_canceled_in_every_step_and_started_anew(pair_of: MakePair) -> None:
    pair = pair_of()
    pair.master.execute("CREATE TABLE public.a (id bigint PRIMARY KEY, t text)")
    pair.master.execute("INSERT INTO public.a SELECT g, 'row ' || g FROM generate_series(1, 300) g")
    pair.capture()
    for number, reached in enumerate(["begin", "create_tables", "plan"]):
        update = pair.update(f"update {number}")
        steps.begin(update, pair.store)
        if reached != "begin":
            steps.create_tables(update)
        if reached == "plan":
            steps.plan(update, pair.store)
        assert steps.cancel(update, pair.store)
        assert pair.state() is SlaveState.INCONSISTENT
        found = pair.checkpoints.read()
        assert found is not None and found.message == "Initial Update interrupted by the ADMIN"
        assert not any(block.state is BlockState.BEGUN for block in pair.blocks())
        assert Gate(pair.store, update.prefix, "dr1").closures() == []
        for step in (
            lambda update=update: steps.create_tables(update),
            lambda update=update: steps.plan(update, pair.store),
            lambda update=update: pair.load(update),
        ):
            with pytest.raises(LoadEnded, match="interrupted by the ADMIN"):
                step()
        assert not steps.cancel(update, pair.store)
    pair.slave.execute(
        "INSERT INTO public.demo_rejects (slave, repl_key, schema, tablename, action, reason)"
        " VALUES ('dr1', 1, 'public', 'a', 'DELETE', 'set aside before')"
    )
    update = pair.update("last")
    pair.prepare(update)
    pair.load(update)
    pair.assert_equal()
    settled = pair.slave.execute("SELECT status, settled_by FROM public.demo_rejects").fetchall()
    assert settled == [("dropped", "initial update last")]


@pytest.mark.one_in(9)
@pytest.mark.parametrize("state", list(SlaveState))
def test_an_update_begins_from_each_state_or_says_what_to_do(pair_of: MakePair, state: SlaveState) -> None:
    pair = pair_of()
    pair.master.execute("CREATE TABLE public.a (id int PRIMARY KEY)")
    pair.capture()
    former = pair.update("former")
    if state is not SlaveState.UNCONFIGURED:
        steps.begin(former, pair.store)
    failed_over = (SlaveState.SWITCHING, SlaveState.MASTER)
    if state in (SlaveState.TRANSITION, SlaveState.NORMAL, *failed_over):
        steps.create_tables(former)
        steps.plan(former, pair.store)
    if state in (SlaveState.NORMAL, *failed_over):
        pair.load(former)
        pair.declare_normal()
    for step in failed_over[: failed_over.index(state) + 1] if state in failed_over else ():
        with pair.slave.transaction():
            pair.checkpoints.move(step)
    if state is SlaveState.INCONSISTENT:
        steps.cancel(former, pair.store)
    assert pair.state() is state
    if SlaveState.INITIAL in MOVES[state]:
        assert steps.begin(pair.update("next"), pair.store)
        assert pair.state() is SlaveState.INITIAL
        return
    with pytest.raises(ForbiddenMove) as refused:
        steps.begin(pair.update("next"), pair.store)
    words = [f"Slave dr1 is {state} and cannot become INITIAL"]
    if state in failed_over:
        words += ["failover"]
    else:
        assert isinstance(refused.value, UpdateUnderWay)
        words += ["Cancel the initial update that is running", "It is initial update former: mark its run as failed"]
    assert all(word in str(refused.value) for word in words), refused.value
    assert pair.state() is state, "nothing was touched"


@pytest.mark.long
def test_a_table_whose_changes_are_not_captured_is_not_loaded(pair_of: MakePair) -> None:
    pair = pair_of()
    pair.master.execute("CREATE TABLE public.a (id int PRIMARY KEY)")
    pair.capture()
    update = pair.update()
    steps.begin(update, pair.store)
    with connect(pair.master_info, application="test", autocommit=True) as quiet:
        # Neither reconciled, nor noticed by the event triggers.
        quiet.execute("SET session_replication_role = replica")
        quiet.execute("CREATE TABLE public.later (id int PRIMARY KEY)")
    assert [str(table) for table in steps.create_tables(update)] == ["public.a"]
    pair.master.execute("ALTER TABLE public.a DISABLE TRIGGER ALL")
    with raises_code("changes-not-captured", match=r"public\.a: .*disabled(?s:.*)reconcile_tables"):
        steps.plan(update, pair.store)
    pair.capture()
    assert steps.plan(update, pair.store) == 2


@pytest.mark.long
def test_rows_that_a_policy_hides_stop_the_load_instead_of_missing(pair_of: MakePair) -> None:
    pair = pair_of(role=True)
    pair.master.execute("CREATE TABLE public.a (id int PRIMARY KEY); INSERT INTO public.a VALUES (1), (2)")
    pair.master.execute("ALTER TABLE public.a ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
    pair.master.execute("CREATE POLICY p ON public.a USING (id = 1)")
    update = pair.update()
    pair.prepare(update)
    with pytest.raises(Terminal, match="row-level security"):
        pair.load(update, 1)
    pair.master.execute("ALTER TABLE public.a NO FORCE ROW LEVEL SECURITY")
    pair.load(update, 1)
    pair.assert_equal()


@pytest.mark.long
def test_many_small_tables_are_loaded_and_reported(pair_of: MakePair) -> None:
    pair = pair_of()
    for number in range(40):
        pair.master.execute(f"CREATE TABLE public.t{number} (id int PRIMARY KEY, v text DEFAULT 'x')".encode())
        pair.master.execute(f"INSERT INTO public.t{number} SELECT g FROM generate_series(1, 3) g".encode())
    update = pair.update()
    pair.prepare(update)
    assert sum(report.rows for report in pair.load(update, 3)) == 120
    found = progress(update)
    assert (found.stored_tables, found.rows) == (40, 120)


@pytest.mark.long
def test_progress_tells_each_table_from_statistics_while_it_loads(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=100, parallel=1)
    for name, rows in (("analysed", 2000), ("never", 2000), ("later", 50)):
        # Autovacuum would analyze a table when it likes.
        made = f"CREATE TABLE public.{name} (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off)"
        pair.master.execute(made.encode())
        pair.master.execute(
            f"INSERT INTO public.{name} SELECT g, repeat('x', 100) FROM generate_series(1, {rows}) g".encode()
        )
    pair.master.execute("ANALYZE public.analysed")
    update = pair.update()
    pair.capture()
    steps.begin(update, pair.store)
    assert progress(update).tables == ()
    steps.create_tables(update)
    steps.plan(update, pair.store)
    before = {str(table.table): str(table) for table in progress(update).tables}
    assert before["public.analysed"] == "public.analysed waiting, about 2,000 rows"
    assert before["public.never"] == "public.never waiting"
    with LoadJob(update) as job:
        # Some blocks of two tables, none of the third.
        for table in ("analysed", "never"):
            done = iter([False, True])
            pair.slave.execute("UPDATE public.demo_blocks SET planned_at = now() WHERE tablename <> %s", [table])
            load_worker(update, job.loader(1), lambda done=done: next(done, True))
        found = progress(update)
        tables = {table.table.name: table for table in found.tables}
        assert tables["analysed"].expected == 2000
        assert 1000 < (tables["never"].expected or 0) < 4000, "by its size, as it was never analysed"
        assert tables["later"].state == "waiting"
        for name in ("analysed", "never"):
            assert 0 < tables[name].rows < 2000 and tables[name].bytes > 100 * tables[name].rows
            assert tables[name].seconds_left and tables[name].seconds_left > 0  # type: ignore[operator]
        whole, *lines = found.lines()
        assert whole.startswith("0 of 3 tables, ")
        assert len(lines) == 2 and all(" s left (until " in line and " rows/s" in line for line in lines)
    pair.load(update)
    assert str(progress(update)).startswith("3 of 3 tables, 4,050 rows, ")
