"""The apply follows the master, stops on drift, and ends when another apply takes over."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.apply import stage_driver
from sluice.coordination import live_state, redis_store
from sluice.coordination.gate import ADMIN, ERROR, Gate
from sluice.coordination.records import Events
from sluice.database.conflicts import Drift
from sluice.executor import ExecutorsFailed, T, ThreadExecutor
from sluice.model.checkpoint import Fenced
from sluice.model.event import EventKind
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.errors import raises_code
from tests.rig.rig import Rig

TABLES = """
CREATE TABLE public.account (id int PRIMARY KEY, owner text, balance numeric);
CREATE TABLE public.history (account int, delta numeric, note text);
CREATE TABLE public."Odd ""Name"" %s" ("Key.1" text, "select" int, "]]>" text, PRIMARY KEY ("Key.1", "select"));
"""
ODD = '"Odd ""Name"" %s"'


def test_changes_arrive(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    with pair.apply():
        pair.master.execute("INSERT INTO public.account SELECT g, 'o' || g, g FROM generate_series(1, 100) g")
        pair.master.execute("UPDATE public.account SET balance = balance + 1 WHERE id % 3 = 0")
        pair.master.execute("DELETE FROM public.account WHERE id % 7 = 0")
        pair.master.execute("UPDATE public.account SET id = id + 1000 WHERE id > 90")
        pair.master.execute("INSERT INTO public.history SELECT 1, 2, E'x\\n]]>&<' FROM generate_series(1, 5)")
        pair.master.execute("DELETE FROM public.history WHERE ctid = (SELECT min(ctid) FROM public.history)")
        odd = "('a', 1, NULL), ('', 2, ''), (E'\\t', 3, '</col>')"
        pair.master.execute(f"INSERT INTO public.{ODD} VALUES {odd}".encode())
        pair.await_current()
        assert pair.differences() == {}
        assert pair.checkpoint.changes > 150


@pytest.mark.long
def test_a_large_window_is_staged_and_merged(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    pair.master.execute("INSERT INTO public.account SELECT g, 'o' || g, g FROM generate_series(1, 40000) g")
    pair.master.execute("INSERT INTO public.history SELECT g, g, 'n' FROM generate_series(1, 5000) g")
    pair.master.execute("UPDATE public.account SET balance = -1 WHERE id % 2 = 0")
    pair.master.execute("UPDATE public.account SET id = -id WHERE id % 1000 = 0")
    pair.master.execute("DELETE FROM public.account WHERE id % 5 = 0 AND id > 0")
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}
    left = pair.slave.execute("SELECT count(*) FROM pg_class WHERE relname ~ '^demo_stage'").fetchone()
    assert left == (0,), "stage tables are dropped"


@pytest.mark.long
def test_a_window_of_a_hundredth_of_a_table_finds_its_rows_by_their_key(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.account SELECT g, 'o' || g, g FROM generate_series(1, 50000) g")
        pair.await_normal_mode(running)
    # A session reports what it scanned at the latest when it ends: only then is there nothing left to be reported.
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    pair.await_that(lambda: pair.slave.execute(others).fetchone() == (0,))
    pair.slave.execute("VACUUM ANALYZE public.account")
    # Our own one, too: the primary key of a new table is made by a scan.
    pair.slave.execute("SELECT pg_stat_force_next_flush()")
    pair.slave.execute("SELECT pg_stat_reset()")
    with pair.apply() as running:
        pair.await_normal_mode(running)
        pair.master.execute("UPDATE public.account SET balance = -1 WHERE id % 100 = 0")
        pair.await_current()
    read = "SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE relname = 'account'"

    def told() -> tuple[int, int]:
        row = pair.slave.execute(read).fetchone()
        assert row is not None
        return row[0], row[1] or 0

    pair.await_that(lambda: told()[1] >= 500)
    assert told()[0] == 0
    assert pair.differences() == {}


@pytest.mark.long
def test_a_window_larger_than_the_limit_goes_in_slices(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES, batch=25_000)
    pair.master.execute("INSERT INTO public.account SELECT g, 'o' || g, g FROM generate_series(1, 60000) g")
    pair.master.execute("UPDATE public.account SET balance = -1")
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}
    assert not pair.checkpoint.catching_up


def test_drift_stops_the_apply_and_closes_the_gate(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    pair.master.execute("INSERT INTO public.account VALUES (1, 'a', 1), (2, 'b', 2)")
    gate = Gate(redis_store.connect(pair.redis_url), pair.pair.prefix, "dr1")
    with pair.apply() as running:
        pair.await_current()
        pair.await_that(lambda: running.in_normal_mode)
        pair.slave.execute("DELETE FROM public.account WHERE id = 2")
        pair.master.execute("UPDATE public.account SET balance = 3 WHERE id = 2")
        with pytest.raises(Drift, match=r"public\.account, row id = '2'"):
            pair.await_current()
    assert "id = '2'" in gate.closures()[0].reason
    assert gate.closures()[0].name == ERROR
    assert "id = '2'" in pair.checkpoint.message
    assert pair.checkpoint.safemode_exit is not None
    pair.slave.execute("INSERT INTO public.account VALUES (2, 'b', 2)")
    with pair.apply():
        pair.await_current()
        assert pair.differences() == {}
        pair.await_that(lambda: pair.checkpoint.safemode_exit is None)
    assert gate.closures() == []
    told = [event.text for event in Events(gate.client, pair.pair.prefix, "dr1").read()]
    said = [line.split(":")[0].split(",")[0] for line in told if not line.startswith("Safe mode")]
    first = ["The apply has started", "The gate was closed", "The apply has ended"]
    assert said == [*first, "The gate's closure 'error' was lifted", "The apply has started", "The apply has ended"]


def test_a_closed_gate_holds_everything_back(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    gate = Gate(redis_store.connect(pair.redis_url), pair.pair.prefix, "dr1")
    gate.close(ADMIN, "anna", "maintenance")
    with pair.apply() as running:
        pair.await_that(lambda: "anna" in str(running.loop.report.status.read().get("activity")))
        pair.master.execute("INSERT INTO public.account VALUES (1, 'a', 1)")
        assert pair.rows(pair.slave, pair.tables(pair.slave)[1]) == []
        gate.open(ADMIN)
        pair.await_current()
        assert pair.differences() == {}


def test_a_successor_by_force_fences_the_former_apply(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    with pair.apply():
        pair.await_current()
        with pair.slave.transaction():
            pair.checkpoints.claim()
        pair.master.execute("INSERT INTO public.account VALUES (1, 'a', 1)")
        with pytest.raises(Fenced):
            pair.await_current()


@pytest.mark.long
def test_an_initial_update_that_begins_stops_applying(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    with pair.apply() as running:
        pair.await_current()
        with pair.slave.transaction():
            pair.checkpoints.move(SlaveState.INITIAL, "being prepared")
        pair.master.execute("INSERT INTO public.account VALUES (1, 'a', 1)")
        pair.await_that(lambda: "being prepared" in str(running.loop.report.status.read().get("activity")))
    assert pair.checkpoint.state is SlaveState.INITIAL


def test_swapped_unique_values_are_applied(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.t (id int PRIMARY KEY, place int UNIQUE, note text)")
    pair.master.execute("INSERT INTO public.t SELECT g, g FROM generate_series(1, 10) g")
    with pair.apply():
        pair.await_current()
        with pair.master.transaction():
            pair.master.execute("UPDATE public.t SET place = -1 WHERE id = 1")
            pair.master.execute("UPDATE public.t SET place = 1 WHERE id = 2")
            pair.master.execute("UPDATE public.t SET place = 2 WHERE id = 1")
            pair.master.execute("UPDATE public.t SET id = 100 WHERE id = 3")
            pair.master.execute("UPDATE public.t SET id = 3 WHERE id = 4")
            pair.master.execute("UPDATE public.t SET id = 4 WHERE id = 100")
        pair.await_current()
        assert pair.differences() == {}


@pytest.mark.long
def test_conflicts_are_set_aside_where_the_policy_says_so(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES, policy="reject")
    pair.master.execute("INSERT INTO public.account VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    with pair.apply() as running:
        pair.await_current()
        pair.await_that(lambda: running.in_normal_mode)
        pair.slave.execute("DELETE FROM public.account WHERE id = 2")
        pair.master.execute("UPDATE public.account SET balance = balance + 1")
        pair.await_current()
    rows = pair.slave.execute("SELECT slave, tablename, action, content, oldcontent, reason FROM public.demo_rejects")
    (slave, table, action, content, oldcontent, reason), *others = rows.fetchall()
    assert others == []
    assert (slave, table, action) == ("dr1", "account", "UPDATE")
    assert '<col name="balance">3</col>' in content
    assert '<col name="balance">2</col>' in oldcontent
    assert "id = '2'" in reason
    assert pair.differences() == {"public.account": (["(2,b,3)"], [])}


def test_definitions_and_truncate_cut_the_stream(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    pair.master.execute("INSERT INTO public.account SELECT g, 'o', g FROM generate_series(1, 20) g")
    with pair.apply():
        pair.await_current()
        with pair.master.transaction():
            pair.master.execute("UPDATE public.account SET balance = 0 WHERE id = 1")
            pair.master.execute("ALTER TABLE public.account ADD COLUMN note text DEFAULT 'new'")
            pair.master.execute("ALTER TABLE public.account ALTER COLUMN owner TYPE varchar(9)")
            pair.master.execute("UPDATE public.account SET note = 'changed' WHERE id <= 10")
            pair.master.execute("ALTER TABLE public.account RENAME COLUMN owner TO holder")
            pair.master.execute("INSERT INTO public.account VALUES (21, 'h', 21, 'inserted')")
            pair.master.execute("ALTER TABLE public.account DROP COLUMN balance")
            pair.master.execute("DELETE FROM public.account WHERE id = 5")
        pair.await_current()
        assert pair.differences() == {}
        pair.master.execute("INSERT INTO public.history SELECT g, g, 'x' FROM generate_series(1, 20) g")
        pair.master.execute("TRUNCATE public.history")
        pair.master.execute("INSERT INTO public.history VALUES (1, 1, 'after')")
        pair.await_current()
        assert pair.differences() == {}
    columns = pair.slave.execute("SELECT * FROM public.account LIMIT 0").description
    assert columns is not None
    assert [column.name for column in columns] == ["id", "holder", "note"]
    past = live_state.past(redis_store.connect(pair.redis_url), pair.pair.prefix, "dr1", 60)
    told = [event.text for event in past.events if event.kind is EventKind.DEFINITION]
    assert len(told) == 4 and told[-1] == "ALTER public.account (id integer, holder character varying(9), note text)"
    assert past.changed.keys() == {"public.account", "public.history"}


@pytest.mark.long
def test_a_slave_restored_to_before_the_purge_is_inconsistent(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    before = pair.checkpoint.position
    assert before is not None
    with pair.apply():
        pair.master.execute("INSERT INTO public.account VALUES (1, 'a', 1)")
        pair.await_current()
    applied = pair.checkpoint.position
    assert applied is not None
    assert PostgresQueue(pair.master, pair.pair.prefix, "public").purge([applied]) > 0
    with pair.apply():
        pair.await_current()
    with pair.slave.transaction():
        pair.slave.execute("TRUNCATE public.account")
        pair.checkpoints.start_at(before)
    with pair.apply(), raises_code("changes-purged", match="Start an initial update"):
        pair.await_current()
    assert pair.checkpoint.state is SlaveState.INCONSISTENT
    assert "older than it has been" in pair.checkpoint.message


@pytest.mark.one_in(2)
@pytest.mark.parametrize("unseen", ["all of it", "a part"])
def test_a_running_apply_of_a_dropped_slave_skips_no_change(rig: Callable[..., Rig], unseen: str) -> None:
    pair = rig(TABLES)
    running = pair.apply()
    with running, raises_code("changes-purged", match="Start an initial update"):
        pair.await_current()
        with pair.master.transaction():
            # The apply reads ITEMS only when all of this is done.
            pair.master.execute("LOCK TABLE public.demo_items IN ACCESS EXCLUSIVE MODE")
            pair.master.execute("INSERT INTO public.account VALUES (1, 'a', 1)")
            pair.master.execute("DELETE FROM public.demo_items")
            if unseen == "a part":
                pair.master.execute("INSERT INTO public.account VALUES (2, 'b', 2)")
            (own,) = pair.master.execute("SELECT pg_current_xact_id()::text::bigint").fetchone() or (0,)
            # What a purge notes after the commit of what it deletes.
            now = SnapshotPosition(own + 1, own + 1)
            PostgresQueue(pair.master, pair.pair.prefix, "public").note_purged([now])
        pair.await_current()
    assert pair.checkpoint.state is SlaveState.INCONSISTENT
    assert pair.slave.execute("SELECT count(*) FROM public.account").fetchone() == (0,)


class Counting(ThreadExecutor):
    """Counts its calls."""

    jobs = 0

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        self.jobs += 1
        return super().map(task, parts, what)


@pytest.mark.long
def test_a_window_with_many_truncations_is_one_job(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES, stage=500)
    running = pair.apply()
    counting = running.loop.applier.stage_driver.executor = Counting()
    with pair.master.transaction():
        for number in range(60):
            rows = 400 if number % 20 == 7 else 5
            pair.master.execute(f"INSERT INTO public.account SELECT g, {number}, g FROM generate_series(1, {rows}) g")
            pair.master.execute(f"UPDATE public.account SET id = id + 1000, owner = 'u{number}' WHERE id % 3 = 0")
            pair.master.execute(f"INSERT INTO public.history SELECT g, {number}, 'n' FROM generate_series(1, 9) g")
            pair.master.execute("UPDATE public.account SET balance = balance + 1 WHERE id < 3")
            if number < 59:
                pair.master.execute("TRUNCATE public.account" + (", public.history" if number % 2 else ""))
    with running:
        pair.await_current()
    assert counting.jobs == 1
    assert pair.differences() == {}
    assert len(pair.rows(pair.slave, pair.tables(pair.slave)[-1])) == 9 + 9


class Frozen(ThreadExecutor):
    """Executors that never finish; once canceled, they end, or are `stuck`."""

    def __init__(self, *, stuck: bool = False) -> None:
        super().__init__()
        self.stuck = stuck
        self.begun, self.canceled = threading.Event(), threading.Event()

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        self.begun.set()
        (threading.Event() if self.stuck else self.canceled).wait()
        raise ExecutorsFailed("canceled")

    def cancel(self) -> None:
        self.ready = False
        self.canceled.set()


@pytest.mark.long
def test_an_apply_that_waits_for_spark_reports_it_and_can_be_stopped(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES, stage=1000)
    pair.master.execute("INSERT INTO public.account SELECT g, 'o', g FROM generate_series(1, 5000) g")
    frozen, running = Frozen(), pair.apply()
    running.loop.applier.stage_driver.executor = frozen
    with running:
        pair.await_that(frozen.begun.is_set)
        pair.await_that(lambda: "Spark stages" in str(running.loop.report.status.read().get("activity")))
    assert frozen.canceled.is_set()
    with pair.apply():
        pair.await_current()
    assert pair.differences() == {}


@pytest.mark.long
def test_while_spark_is_stuck_the_apply_takes_a_large_window_itself(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like a Spark that cannot start Python workers any more, while its JVM answers."""
    monkeypatch.setattr(stage_driver, "FIRST_SECONDS", 0.2)
    pair = rig(TABLES, stage=1000)
    pair.master.execute("INSERT INTO public.account SELECT g, 'o', g FROM generate_series(1, 5000) g")
    stuck, running = Frozen(stuck=True), pair.apply()
    running.loop.applier.stage_driver.executor = stuck
    with running:
        pair.await_current()
    assert stuck.begun.is_set() and stuck.canceled.is_set()
    assert pair.differences() == {}


def test_a_slave_of_another_master_is_inconsistent(rig: Callable[..., Rig]) -> None:
    """Whatever the transaction numbers of the two masters are."""
    pair = rig(TABLES)
    with pair.apply():
        pair.await_current()
    found = pair.checkpoint.position
    assert found is not None
    seen = SnapshotPosition.of(found)
    assert seen.origin is not None
    pair.set_back(replace(seen, origin=replace(seen.origin, system="4711"), run="", marked=None))
    with pair.apply(), raises_code("master-replaced", match="another database cluster"):
        pair.await_that(lambda: False)
    assert pair.checkpoint.state is SlaveState.INCONSISTENT
    assert "Start an initial update" in pair.checkpoint.message


@pytest.mark.long
def test_during_an_outage_of_the_master_the_last_known_state_is_shown(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    master = pair.pair.master_info.database
    with pair.apply() as running:
        pair.await_current()
        pair.slave.execute(f'ALTER DATABASE "{master}" ALLOW_CONNECTIONS false'.encode())
        try:
            pair.slave.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sluice %%'"
                " AND datname = %s",
                [master],
            )
            status = running.loop.report.status
            pair.await_that(lambda: "not currently accepting" in str(status.read().get("activity")))
            assert (status.read()["state"], status.read()["current_as_of"] is not None) == ("NORMAL", True)
        finally:
            pair.slave.execute(f'ALTER DATABASE "{master}" ALLOW_CONNECTIONS true'.encode())
        pair.await_current()
