"""Loaders that are killed, cut off, paused, overtaken and canceled; DDL while blocks are read."""

import random
import re
import signal
import threading
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from sluice.control.blocks import BlockStore
from sluice.database.control import LoadRuns
from sluice.load import loader, steps
from sluice.load.load_job import LoadJob
from sluice.load.load_ownership import LoadEnded
from sluice.load.loader import load_worker
from sluice.load.worker import JobOver
from sluice.model.blocks import BlockState
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog, row_copy
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source import snapshot
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.postgres.target import load_ownership
from sluice.vendors.postgres.vendor import POSTGRES
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_load.killable import begun_or_ended, killable
from tests.scenarios.initial_load.traffic import Traffic, Writable
from tests.waiting import until

ORDERS = Writable("public.orders", ("id",), "floor(random() * 11000)::int")
NOTES = Writable("public.notes", ("a", "b"), "floor(random() * 90)::int, chr(65 + floor(random() * 99)::int)")


@pytest.fixture
def shop(pair_of: MakePair) -> Rig:
    pair = pair_of(block_rows=400, seconds=0.05)
    pair.master.execute("CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.orders SELECT g, repeat(md5(g::text), 8) FROM generate_series(1, 8000) g")
    pair.master.execute("CREATE TABLE public.notes (b text, a int, v text, PRIMARY KEY (a, b))")
    pair.master.execute(
        "INSERT INTO public.notes SELECT chr(65 + (g / 90)::int), g % 90, 'old' FROM generate_series(1, 3000) g"
    )
    return pair


def test_killed_again_and_again_it_ends_equal_and_reads_no_stored_block_twice(shop: Rig) -> None:
    chance = random.Random(7)
    shop.capture()
    update = shop.update()
    seen: dict[tuple[TableName, int], Any] = {}
    kills = 0
    with Traffic(shop.master_info, [ORDERS, NOTES]):
        shop.prepare(update)
        shop.slow_down("public.orders", 0.00005)
        with shop.apply():
            while True:
                process = killable(update)
                planned = sum(block.state is not BlockState.STORED for block in shop.blocks())
                until(partial(begun_or_ended, shop, process))
                if kills < 3:
                    threading.Event().wait(chance.random() * 0.2)
                    process.send_signal(signal.SIGKILL)
                    kills += process.wait() == -signal.SIGKILL
                else:
                    assert process.wait(120) == 0
                for block in shop.blocks():
                    if block.state is BlockState.STORED:
                        place = (block.table, block.number)
                        assert seen.setdefault(place, block) == block
                if process.returncode == 0:
                    break
                assert planned
            shop.await_normal()
    with shop.apply():
        shop.await_current()
    shop.assert_equal()
    assert kills >= 2
    assert len(seen) == len(shop.blocks()) > 10


@pytest.mark.long
def test_cut_connections_on_either_side_are_made_again(shop: Rig) -> None:
    shop.capture()
    update = shop.update()
    cut = 0
    done = threading.Event()

    def cutter() -> None:
        nonlocal cut
        chance = random.Random(3)
        links = [connect(info, application="cutter", autocommit=True) for info in (shop.master_info, shop.slave_info)]
        for connection in links * 5:
            # Loaders are there for moments only: the first cut of each side must not miss them.
            found = 0
            while not found and not done.wait(0.002):
                found = load_ownership.end_sessions(connection, update.loader_application)
            cut += found
            if done.wait(0.05 + chance.random() * 0.1):
                break
        for connection in links:
            connection.close()

    shop.prepare(update)
    thread = threading.Thread(target=cutter)
    with shop.apply():
        thread.start()
        with Traffic(shop.master_info, [ORDERS, NOTES], writers=1):
            shop.load(update, 2)
            done.set()
            thread.join()
            shop.await_normal()
        shop.await_current()
    shop.assert_equal()
    assert cut


@pytest.mark.long
def test_a_loader_that_was_given_up_can_store_nothing(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.capture()
    update = shop.update()
    shop.prepare(update)
    reading, go_on = threading.Event(), threading.Event()
    real = row_copy.write

    def slow(*args: Any, **options: Any) -> Any:
        if threading.current_thread().name == "zombie":
            reading.set()
            assert go_on.wait(60)
        return real(*args, **options)

    monkeypatch.setattr(POSTGRES.load_target, "write", slow)
    monkeypatch.setattr(load_ownership, "end_sessions", lambda *_: 0)
    dead = LoadJob(update)
    dead.__enter__()
    ends: list[BaseException] = []

    def outlive() -> None:
        try:
            load_worker(update, dead.loader(1))
        except JobOver as over:
            ends.append(over)

    zombie = threading.Thread(target=outlive, name="zombie")
    zombie.start()
    assert reading.wait(30)
    assert dead._slave is not None
    dead._slave.close()
    (begun,) = [block for block in shop.blocks() if block.state is BlockState.BEGUN]
    with LoadJob(update) as job:
        report = load_worker(update, job.loader(1))
        stored = {(block.table, block.number): block for block in shop.blocks()}
        assert str(stored[begun.table, begun.number].loader).startswith(f"{job.loader(1)}.")
        go_on.set()
        zombie.join(30)
        assert not zombie.is_alive()
    assert len(ends) == 1
    assert report.blocks == len(stored)
    assert {(block.table, block.number): block for block in shop.blocks()} == stored
    shop.assert_equal()


def test_two_jobs_never_load_together(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.load.load_job.LOCK_WAIT_SECONDS", 0.3)
    shop.capture()
    update = shop.update()
    shop.prepare(update)
    with LoadJob(update), pytest.raises(LoadRuns, match=r"by another job \(session \d+ of postgres from 127"):
        LoadJob(update).__enter__()
    with LoadJob(update):
        pass


@pytest.mark.long
def test_cancelling_stops_a_loader_in_the_middle_of_a_block(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.master.execute("CREATE TABLE public.heap (v text)")
    shop.master.execute("INSERT INTO public.heap SELECT repeat(md5(g::text), 20) FROM generate_series(1, 50000) g")
    shop.capture()
    update = shop.update()
    shop.prepare(update)
    copied = threading.Event()
    real = row_copy._pieces

    def slow(*args: Any) -> Any:
        for piece in real(*args):
            copied.set()
            threading.Event().wait(0.2)
            yield piece

    monkeypatch.setattr(row_copy, "_pieces", slow)
    loading = Background(lambda: shop.load(update, 1))
    assert copied.wait(30)
    assert steps.cancel(update, shop.store)
    ended = loading.end(10)
    assert isinstance(ended, LoadEnded) and "Initial Update interrupted by the ADMIN" in str(ended)
    assert not any(block.state is BlockState.BEGUN for block in shop.blocks())
    assert shop.slave.execute("SELECT count(*) FROM public.heap").fetchone() == (0,)


@pytest.mark.long
def test_a_block_waits_for_the_column_that_the_apply_has_still_to_add(shop: Rig) -> None:
    shop.capture()
    update = shop.update()
    shop.prepare(update)
    shop.master.execute("ALTER TABLE public.notes ADD COLUMN w int DEFAULT 5, ALTER COLUMN v SET DEFAULT 'x'")
    loading = Background(lambda: shop.load(update, 2))
    until(lambda: any(block.state is BlockState.STORED for block in shop.blocks("orders")))
    until(lambda: all(block.state is BlockState.STORED for block in shop.blocks("orders")))
    assert not any(block.state is BlockState.STORED for block in shop.blocks("notes"))
    shop.slave.execute("ALTER TABLE public.notes ADD COLUMN w int DEFAULT 5")
    assert loading.end(30) is None
    shop.assert_equal()


@pytest.mark.long
def test_a_table_that_is_gone_and_stays_planned_is_left_out(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "OVERDUE", timedelta(seconds=1))
    shop.capture()
    update = shop.update()
    shop.prepare(update)
    shop.master.execute("DROP TABLE public.notes")
    # Nothing applies yet: the loader waits. Then the apply comes past that point without a word of the table.
    loading = Background(lambda: shop.load(update, 1))
    until(lambda: all(block.state is BlockState.STORED for block in shop.blocks("orders")))
    assert loading.is_alive()
    shop.slave.execute("UPDATE public.demo_checkpoint SET position_time = now() + interval '1 minute'")
    assert loading.end(30) is None
    assert {block.table.name for block in shop.blocks()} == {"orders"}
    reason = shop.checkpoint.tables.reasons[TableName("public", "notes")]
    assert re.search(r"public\.notes waits .* The apply is past that point(?s:.*)reconcile", reason)


@pytest.mark.long
def test_blocks_of_a_table_dropped_on_both_sides_are_forgotten(shop: Rig) -> None:
    shop.capture()
    update = shop.update()
    shop.prepare(update)
    shop.master.execute("DROP TABLE public.notes")
    loading = Background(lambda: shop.load(update, 1))
    # What the apply does when it comes to the DROP.
    with shop.slave.transaction():
        shop.slave.execute("DROP TABLE public.notes")
        assert BlockStore(shop.slave, update.prefix, "public", "dr1").delete(TableName("public", "notes")) == 1
    assert loading.end() is None
    assert {block.table.name for block in shop.blocks()} == {"orders"}
    shop.assert_equal([TableName("public", "orders")])


@pytest.mark.long
def test_a_value_that_moved_between_blocks_waits_for_the_apply(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=10, seconds=0.01)
    pair.master.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.t SELECT g, 'v' || g FROM generate_series(1, 500) g")
    # The slave's own unique index: it stays, and only the end state satisfies it.
    pair.slave.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    pair.slave.execute("CREATE UNIQUE INDEX own ON public.t (v)")
    pair.capture()
    update = pair.update()
    pair.prepare(update)
    with LoadJob(update) as job:
        once = iter([False, False, False, True])
        load_worker(update, job.loader(1), lambda: next(once, True))
    stored = [block for block in pair.blocks() if block.state is BlockState.STORED]
    assert 0 < len(stored) < len(pair.blocks())
    pair.master.execute("UPDATE public.t SET v = 'moved' WHERE id = 1")
    pair.master.execute("UPDATE public.t SET v = 'v1' WHERE id = 500")
    loading = Background(lambda: pair.load(update, 2))
    until(lambda: all(block.state is BlockState.STORED or block.hi is None for block in pair.blocks()))
    with pair.apply():
        assert loading.end() is None
        pair.await_normal()
        pair.await_current()
    pair.assert_equal()


def test_a_marker_is_never_older_than_a_truncate_its_block_misses(shop: Rig) -> None:
    """TRUNCATE empties a table for older snapshots, too: none may be taken before it and used after it."""
    shop.capture()
    update = shop.update()
    shape = catalog.shape(shop.master, TableName("public", "orders"))
    assert shape is not None
    reader = update.connect_master()
    with PostgresQueue(reader, update.prefix, "public").reading(shape) as seen:
        shop.master.execute("SET lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            shop.master.execute("TRUNCATE public.orders")
        assert reader.execute("SELECT count(*) FROM public.orders").fetchone() == (8000,)
    truncating = update.connect_master()
    with truncating.transaction():
        truncating.execute("TRUNCATE public.orders")
        row = truncating.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        assert row is not None
        found: list[snapshot.Snapshot] = []

        def read() -> None:
            with PostgresQueue(reader, update.prefix, "public").reading(shape) as later:
                found.append(later)

        thread = threading.Thread(target=read)
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'LOCK TABLE%%'"
        until(lambda: shop.master.execute(waiting.replace("%%", "%")).fetchone() == (1,))
    thread.join(10)
    assert not seen.marker.covers(row[0], 0)
    assert found[0].marker.covers(row[0], 0)
    reader.close()
    truncating.close()
