"""Shapes at the edge: values of 100 MB, 1,600 columns, a table whose rows nobody could count, thousands of tables."""

import hashlib
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sluice.load import steps
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.load.transfer.transfer_folder import TransferFolder
from sluice.model.location import Location, S3Access
from sluice.model.slave_state import SlaveState
from tests.rig.net import Net, until
from tests.scenarios.initial_files.carrying import export as export_job

CONFIG = """
prefix: DEMO_
master: {conn_id: m, schema: public}
slaves: {one: {conn_id: s1, schema: public}, two: {conn_id: s2, schema: public}}
tables: {'public.*': {}}
initial: {block_rows: 1000, block_target_seconds: 0.5, parallel: 2}
"""
MB = 1 << 20
ROOM = 100 * MB
"""What else a process may take beside the values: libraries, connections, batches."""


def resident() -> int:
    """The memory of this process, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@contextmanager
def watched() -> Iterator[list[int]]:
    """How far the memory of this process grew since the beginning, in bytes."""
    before, peak, ended = resident(), [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            peak[0] = max(peak[0], resident() - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def export(net: Net, update: object, folder: Path) -> TransferFolder:
    folder.mkdir()
    carried = transfer_steps.folder_of(update, Location.parse(str(folder)), S3Access(), None)  # type: ignore[arg-type]
    export_job(update, carried, 1)
    transfer_steps.seal(update, carried)  # type: ignore[arg-type]
    return carried


@pytest.mark.long
@pytest.mark.parametrize("megabytes", [8, pytest.param(100, marks=pytest.mark.long)])
def test_values_of_many_megabytes_travel_by_every_way(net: Net, tmp_path: Path, megabytes: int) -> None:
    size = megabytes * MB
    net.configure(CONFIG)
    net.at("m", "CREATE TABLE public.big (id int PRIMARY KEY, t text, b bytea)")
    net.at("m", "ALTER TABLE public.big ALTER t SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL")
    fill = "pg_catalog.repeat(pg_catalog.md5(%s::text), %s)"
    lines = size // 32
    net.at("m", f"INSERT INTO public.big VALUES (1, {fill % (1, lines)}, NULL), (2, NULL, {fill % (2, lines)}::bytea)")
    sums = "SELECT id, pg_catalog.md5(t), pg_catalog.md5(b) FROM public.big ORDER BY id"

    # Over the wire.
    one = net.update("DEMO_", "one")
    net.prepare(one)
    with watched() as grown:
        net.load(one, 1)
    assert net.at("s1", sums) == net.at("m", sums)
    loading = grown[0]

    # As files.
    two = net.update("DEMO_", "two")
    steps.begin(two, net.store)
    steps.create_tables(two)
    steps.plan(two, net.store, transfer_steps.QUEUEING)
    with watched() as grown:
        carried = export(net, two, tmp_path / "out")
        import_in_threads(two, carried, transfer_steps.examine(two, carried), 1)
    assert net.at("s2", sums) == net.at("m", sums)
    carrying = grown[0]

    # As changes: captured, then applied.
    net.at("m", f"INSERT INTO public.big VALUES (3, {fill % (3, lines)}, NULL)")
    net.at("m", "UPDATE public.big SET t = t || 'x' WHERE id = 1")
    net.at("m", f"UPDATE public.big SET b = {fill % (4, lines // 2)}::bytea WHERE id = 2")
    with watched() as grown, net.applying(("DEMO_", "one")) as running:
        net.await_current("DEMO_", "one", running, 200)
    assert net.at("s1", sums) == net.at("m", sums)
    print(f"grown by {loading / MB:.0f} MB loading, {carrying / MB:.0f} MB by files, {grown[0] / MB:.0f} MB applying")
    assert loading < 6 * size + ROOM, "a value, and what libpq and the driver hold of it"
    assert carrying < 6 * size + ROOM
    assert grown[0] < 40 * size + ROOM


@pytest.mark.long
def test_a_table_of_1600_columns_goes_through_everything(net: Net, tmp_path: Path) -> None:
    net.configure(CONFIG)
    names = [f"c{number:04}" for number in range(1599)]
    net.at("m", f"CREATE TABLE public.wide (id int PRIMARY KEY, {', '.join(f'{name} smallint' for name in names)})")
    row = ", ".join("NULL" if number % 3 else f"g % {number % 97 + 1}" for number in range(1599))
    net.at("m", f"INSERT INTO public.wide SELECT g, {row} FROM pg_catalog.generate_series(1, 500) g")
    one, two = net.update("DEMO_", "one"), net.update("DEMO_", "two")
    net.prepare(one)
    steps.begin(two, net.store)
    steps.create_tables(two)
    steps.plan(two, net.store, transfer_steps.QUEUEING)
    with net.applying(("DEMO_", "one"), ("DEMO_", "two")) as running:
        net.load(one)
        carried = export(net, two, tmp_path / "out")
        net.at("m", f"INSERT INTO public.wide SELECT g, {row} FROM pg_catalog.generate_series(501, 520) g")
        net.at("m", "UPDATE public.wide SET c0000 = c0000 + 1, c1598 = 7 WHERE id % 5 = 0")
        net.at("m", "UPDATE public.wide SET id = id + 10000 WHERE id < 5")
        net.at("m", "DELETE FROM public.wide WHERE id % 11 = 0")
        import_in_threads(two, carried, transfer_steps.examine(two, carried), 2)
        steps.open_gate(two, net.store)
        net.await_current("DEMO_", "one", running, 120)
        net.await_current("DEMO_", "two", running, 120)
    net.assert_equal("m", "s1", "wide")
    net.assert_equal("m", "s2", "wide")
    steps.finish(one)


def test_a_plan_costs_the_same_however_many_rows_there_are(net: Net) -> None:
    """The statistics say a hundred million rows, and the keys are as sparse as theirs."""
    net.configure(CONFIG)
    net.at("m", "CREATE TABLE public.huge (id bigint PRIMARY KEY, v text) WITH (autovacuum_enabled = off)")
    net.at("m", "INSERT INTO public.huge SELECT g * 50000, 'x' FROM pg_catalog.generate_series(1, 2000) g")
    net.at("m", "ANALYZE public.huge")
    net.at("m", "UPDATE pg_catalog.pg_class SET reltuples = 1e8, relpages = 1000000 WHERE relname = 'huge'")
    net.capture("DEMO_")
    one = net.update("DEMO_", "one")
    steps.begin(one, net.store)
    steps.create_tables(one)
    reads = "SELECT seq_tup_read + idx_tup_fetch FROM pg_catalog.pg_stat_user_tables WHERE relname = 'huge'"
    net.at("m", "SELECT pg_catalog.pg_stat_force_next_flush()")
    before = net.at("m", reads)
    with watched() as grown:
        assert steps.plan(one, net.store) == 1
    assert grown[0] < 20 * MB
    assert net.at("m", reads) == before, "no row was read for it"
    assert net.at("s1", "SELECT pg_catalog.count(*) FROM public.demo_blocks") == [(1,)], "the plan grows with the work"
    with net.applying(("DEMO_", "one")) as running:
        reports = net.load(one)
        until(lambda: net.state("DEMO_", "one") is SlaveState.NORMAL, running)
    assert sum(report.rows for report in reports) == 2000
    # Blocks are cut by the rows that are there, not by the span of their keys or by what statistics say.
    assert sum(report.blocks for report in reports) <= 8
    net.assert_equal("m", "s1", "huge")


@pytest.mark.long
@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.long)])
def test_many_tables_are_captured_and_loaded(net: Net, count: int) -> None:
    net.configure(CONFIG)
    for start in range(0, count, 50):
        net.at("m", "".join(
            f"CREATE TABLE public.t{start + number} (id int PRIMARY KEY, v text);"
            f"INSERT INTO public.t{start + number} SELECT g, 'x' FROM pg_catalog.generate_series(1, {number % 3}) g;"
            for number in range(50)
        ))  # fmt: skip
    began = time.monotonic()
    assert len(net.capture("DEMO_").steps) == count
    captured = time.monotonic()
    assert not net.capture("DEMO_").steps
    one = net.update("DEMO_", "one")
    steps.begin(one, net.store)
    steps.create_tables(one)
    steps.plan(one, net.store)
    planned = time.monotonic()
    with net.applying(("DEMO_", "one")) as running:
        net.load(one, 4)
        until(lambda: net.state("DEMO_", "one") is SlaveState.NORMAL, running)
    took = [captured - began, planned - captured, time.monotonic() - planned]
    assert steps.finish(one).left_out == []
    print("captured in {:.1f} s, planned in {:.1f} s, loaded in {:.1f} s".format(*took))
    union = " UNION ALL ".join(f"SELECT {number} AS n, id, v FROM public.t{number}" for number in range(0, count, 7))
    rows = [str(net.at(place, f"SELECT n, id, v FROM ({union}) u ORDER BY 1, 2")) for place in ("m", "s1")]
    assert hashlib.sha256(rows[0].encode()).digest() == hashlib.sha256(rows[1].encode()).digest()
