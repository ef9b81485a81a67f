"""All ways to read the master end equal; tests of what each one guarantees besides."""

import signal
from functools import partial

import pytest

from sluice.configuration.options import READS
from sluice.coordination.gate import Gate
from sluice.load import loader, read_modes, steps
from sluice.load.load_job import LoadJob
from sluice.load.load_snapshot import LoadSnapshot
from sluice.load.loader import load_worker
from sluice.load.read_modes import SnapshotLost
from sluice.load.update import Update
from sluice.model.blocks import BlockState
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_load.killable import begun_or_ended, killable
from tests.scenarios.initial_load.shop import HEAP, NOTES, ORDERS, SCRATCH, disturb, make_shop
from tests.scenarios.initial_load.traffic import Traffic, Writable
from tests.waiting import until

PARTED = Writable("public.parted", ("id",), "floor(random() * 6000)::int")


def make_parted(pair: Rig) -> None:
    pair.master.execute("CREATE TABLE public.parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    for number in range(3):
        pair.master.execute(
            f"CREATE TABLE public.part_{number} PARTITION OF public.parted "
            f"FOR VALUES FROM ({number * 2000}) TO ({number * 2000 + 2000})"
        )
    pair.master.execute("INSERT INTO public.parted SELECT g, 'old' FROM generate_series(0, 5999, 3) g")


def load_to_the_end(pair: Rig, update: Update) -> int:
    """Loads like the job: again if the snapshot was lost. Returns how often it started over."""
    for again in range(30):
        try:
            pair.load(update, 2)
        except SnapshotLost:
            continue
        return again
    raise AssertionError("it starts over forever")


@pytest.mark.long
@pytest.mark.one_in(3)
@pytest.mark.parametrize("read", READS)
def test_killed_half_way_under_traffic_and_changes_of_definitions_the_end_is_equal(
    pair_of: MakePair, read: str
) -> None:
    pair = pair_of(block_rows=100, seconds=0.05)
    make_shop(pair)
    make_parted(pair)
    pair.capture()
    update = pair.update(read=read)
    pair.prepare(update)
    pair.slow_down("public.orders", 0.0002)
    more = ("CREATE TABLE public.part_3 PARTITION OF public.parted FOR VALUES FROM (6000) TO (8000)",)
    with pair.apply(), Traffic(pair.master_info, [ORDERS, NOTES, SCRATCH, HEAP], writers=2):
        killed = killable(update)
        until(lambda: killed.poll() is not None or sum(b.state is BlockState.STORED for b in pair.blocks()) > 4)
        until(partial(begun_or_ended, pair, killed))
        killed.send_signal(signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL, "it was through before it could be killed"
        disturber = Background(lambda: disturb(pair, more))
        load_to_the_end(pair, update)
        assert disturber.end() is None
        pair.await_normal()
    with pair.apply():
        pair.await_current()
    pair.assert_equal()
    assert steps.finish(update).left_out == []
    assert Gate(pair.store, update.prefix, "dr1").closures() == []


@pytest.mark.long
def test_a_load_from_one_snapshot_is_consistent_at_once(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=50, seconds=0.02)
    make_shop(pair)
    make_parted(pair)
    pair.capture()
    update = pair.update(read="snapshot")
    pair.prepare(update)
    tables = [ORDERS, NOTES, SCRATCH, PARTED, HEAP]
    with Traffic(pair.master_info, tables) as traffic, LoadJob(update) as job, LoadSnapshot(update):
        before = traffic.transactions
        until(lambda: traffic.transactions > before + 20)
        load_worker(update, job.loader(1))
    (closure,) = Gate(pair.store, update.prefix, "dr1").closures()
    assert closure.reason == steps.IN_ONE_SNAPSHOT
    found = pair.checkpoints.read()
    assert found is not None and found.state is SlaveState.TRANSITION
    blocks = pair.blocks()
    assert len(blocks) > 15
    assert {block.marker for block in blocks} == {found.position}, "one marker for all, where applying continues"
    # No change was applied, and no more is needed for NORMAL.
    steps.arrive(update, pair.store)
    assert pair.state() is SlaveState.NORMAL
    with pair.apply():
        pair.await_current()
    pair.assert_equal()


def test_a_load_whose_snapshot_is_lost_starts_over_and_says_so(
    pair_of: MakePair, caplog: pytest.LogCaptureFixture
) -> None:
    pair = pair_of(block_rows=200, seconds=0.05)
    make_shop(pair)
    pair.capture()
    update = pair.update(read="snapshot")
    pair.prepare(update)
    pair.slow_down("public.orders", 0.0003)
    loading = Background(lambda: pair.load(update, 2))
    until(lambda: any(block.state is BlockState.STORED for block in pair.blocks()))
    first = {block.marker for block in pair.blocks()}
    pair.master.execute("UPDATE public.orders SET v = 'later' WHERE id % 7 = 0")
    ended = pair.master.execute(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE application_name LIKE 'sluice load snapshot%' AND datname = current_database()"
    ).fetchone()
    assert ended == (1,)
    lost = loading.end(30)
    assert isinstance(lost, SnapshotLost) and "the load starts over with a new snapshot" in str(lost)
    with caplog.at_level("WARNING", "sluice.load"):
        pair.load(update, 2)
    assert "it starts over with a new one" in caplog.text
    second = {block.marker for block in pair.blocks()}
    assert len(second) == 1 and second.isdisjoint(first)
    assert pair.state() is SlaveState.NORMAL
    pair.assert_equal()


@pytest.mark.long
@pytest.mark.parametrize("statement", [
    "TRUNCATE public.notes",
    "DROP TABLE public.notes",
    "ALTER TABLE public.notes RENAME TO remarks",
    "ALTER TABLE public.notes ALTER COLUMN v TYPE varchar(20) USING upper(v)",
    "ALTER TABLE public.notes DROP COLUMN v, ADD COLUMN w text",
    "ALTER TABLE public.parted DETACH PARTITION public.part_1",
    "TRUNCATE public.part_2",
])  # fmt: skip
def test_a_snapshot_is_never_read_past_what_emptied_or_altered_a_table_since(pair_of: MakePair, statement: str) -> None:
    pair = pair_of(block_rows=200, seconds=0.05)
    make_shop(pair)
    make_parted(pair)
    pair.capture()
    update = pair.update(read="snapshot")
    pair.prepare(update)
    with LoadJob(update) as job, LoadSnapshot(update):
        pair.master.execute(statement.encode())
        with pytest.raises(SnapshotLost, match="starts over with a new snapshot"):
            load_worker(update, job.loader(1))
    pair.capture()
    assert load_to_the_end(pair, update) == 0
    assert pair.state() is SlaveState.NORMAL
    pair.assert_equal()


@pytest.mark.long
def test_a_column_that_is_added_does_not_disturb_a_snapshot(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=200, seconds=0.05)
    make_shop(pair)
    pair.capture()
    update = pair.update(read="snapshot")
    pair.prepare(update)
    with LoadJob(update) as job, LoadSnapshot(update):
        pair.master.execute("ALTER TABLE public.notes ADD COLUMN w int DEFAULT 7")
        pair.master.execute("INSERT INTO public.notes VALUES ('new', 1, 'x', 8)")
        load_worker(update, job.loader(1))
    steps.arrive(update, pair.store)
    with pair.apply():
        pair.await_current()
    pair.assert_equal()


@pytest.mark.long
def test_locks_give_way_to_the_application_and_come_back(
    pair_of: MakePair, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "rest_seconds", lambda tries: 0.1)
    pair = pair_of(block_rows=1000, seconds=0.5)
    make_shop(pair)
    pair.capture()
    update = pair.update(read="locked")
    pair.prepare(update)
    holder = connect(pair.master_info, application="holder")
    holder.execute("UPDATE public.orders SET v = 'held' WHERE id = 1500")
    caplog.set_level("INFO", "sluice.load")
    loading = Background(lambda: pair.load(update, 2))

    def others_stored() -> bool:
        """Whether all blocks are stored except that of a single row."""
        left = [block for block in pair.blocks() if block.state is not BlockState.STORED]
        keys = [(block.lo, block.hi) for block in left]
        return len(left) == 1 and keys == [(("1500",), ("1501",))]

    # Past the locked row: what surrounds it comes in smaller and smaller blocks.
    until(others_stored)
    tries = pair.slave.execute("SELECT max(tries), max(retry_at) > now() - interval '1 minute' FROM public.demo_blocks")
    found = tries.fetchone()
    assert found is not None and found[0] >= 3 and found[1]
    assert loading.is_alive()
    assert "of public.orders waits for the application: " in caplog.text
    holder.commit()
    assert loading.end() is None
    pair.assert_equal()
    holder.close()


@pytest.mark.long
def test_a_locked_block_lets_the_application_go_on_though_the_slave_takes_no_row(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=100_000, seconds=30, parallel=1)
    pair.master.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.t SELECT g, repeat(md5(g::text), 20) FROM generate_series(1, 20000) g")
    pair.capture()
    update = pair.update(read="locked")
    pair.prepare(update)
    holder = pair.hold("public.t")
    loading = Background(lambda: pair.load(update, 1))
    waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
    until(lambda: pair.slave.execute(waits.encode()).fetchone() == (True,) or not loading.is_alive())
    assert loading.is_alive(), loading.failure
    # Its rows were locked, which leaves a trace. They are not for as long as storing them lasts.
    was_locked = pair.master.execute("SELECT count(*) FROM public.t WHERE xmax <> '0'").fetchone()
    assert was_locked == (20_000,)
    pair.master.execute("SET lock_timeout = '120s'")
    pair.master.execute("UPDATE public.t SET v = 'x' WHERE id % 100 = 0")
    assert all(block.state is not BlockState.STORED for block in pair.blocks())
    holder.close()
    assert loading.end(300) is None
    with pair.apply():
        pair.await_current()
    pair.assert_equal()


@pytest.mark.long
def test_a_table_without_key_whose_rows_stay_locked_is_read_without_locks(
    pair_of: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_modes, "UNLOCKED_AFTER", 2)
    pair = pair_of()
    pair.master.execute("CREATE TABLE public.heap (v text)")
    pair.master.execute("INSERT INTO public.heap SELECT 'v' || g FROM generate_series(1, 300) g")
    pair.capture()
    update = pair.update(read="locked")
    pair.prepare(update)
    holder = connect(pair.master_info, application="holder")
    holder.execute("UPDATE public.heap SET v = 'held' WHERE v = 'v7'")
    pair.load(update, 1)
    holder.rollback()
    holder.close()
    pair.assert_equal()
