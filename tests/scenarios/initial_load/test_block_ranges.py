"""How many blocks are read at the same time, how large they become, and what a restart reads again."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from sluice.model.blocks import BlockState
from sluice.vendors.postgres.connection import connect
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_load.killable import begun_or_ended, killable
from tests.waiting import until

SAME_TIME = (
    "SELECT count(*), count(DISTINCT tablename), max(n) FROM "
    "(SELECT tablename, count(*) OVER (PARTITION BY tablename) AS n FROM public.demo_blocks WHERE state = 'begun') AS b"
)


@dataclass
class Seen:
    """The highest counts that were observed."""

    blocks: int = 0
    tables: int = 0
    ranges: int = 0
    done: threading.Event = field(default_factory=threading.Event)


@contextmanager
def looking(pair: Rig) -> Iterator[Seen]:
    """Reads BLOCKS again and again during a load."""
    seen = Seen()

    def look() -> None:
        connection = connect(pair.slave_info, application="look", autocommit=True)
        while not seen.done.wait(0.002):
            row = connection.execute(SAME_TIME).fetchone()
            assert row is not None
            seen.blocks, seen.tables = max(seen.blocks, row[0]), max(seen.tables, row[1])
            seen.ranges = max(seen.ranges, row[2] or 0)
        connection.close()

    thread = threading.Thread(target=look)
    thread.start()
    yield seen
    seen.done.set()
    thread.join()


def with_options(pair: Rig, **options: object) -> Rig:
    initial = replace(pair.replication.initial, **options)  # type: ignore[arg-type]
    return pair.with_options(initial=initial)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("tables", "ranges", "expected"), [
    (256, 256, (6, 4, 6)),
    (2, 256, (6, 2, 6)),
    (256, 1, (4, 4, 1)),
    (2, 2, (4, 2, 2)),
    (1, 3, (3, 1, 3)),
])  # fmt: skip
def test_tables_and_ranges_at_the_same_time_have_a_limit_each(
    pair_of: MakePair, tables: int, ranges: int, expected: tuple[int, int, int]
) -> None:
    pair = with_options(pair_of(block_rows=20, seconds=0.1), parallel=6, parallel_tables=tables, parallel_ranges=ranges)
    for number in range(4):
        pair.master.execute(f"CREATE TABLE public.t{number} (id int PRIMARY KEY)")
        pair.master.execute(f"INSERT INTO public.t{number} SELECT generate_series(1, 300)")
    pair.capture()
    update = pair.update()
    pair.prepare(update)
    holder = pair.hold(*(f"public.t{number}" for number in range(4)))
    with looking(pair) as seen:
        loading = Background(lambda: pair.load(update, 6))
        # The limits are what binds: up to them work goes side by side.
        until(lambda: seen.blocks >= expected[0] or not loading.is_alive())
        holder.close()
        assert loading.end() is None
    pair.assert_equal()
    most = (seen.blocks, seen.tables, seen.ranges)
    assert all(met <= limit for met, limit in zip(most, expected, strict=True)), most
    assert seen.blocks == expected[0]
    assert seen.ranges >= min(2, ranges)


@pytest.mark.long
def test_the_size_of_blocks_goes_towards_the_target_time_for_each_table_by_itself(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=100, seconds=0.2)
    for name in ("quick", "slow"):
        pair.master.execute(f"CREATE TABLE public.{name} (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.quick SELECT g, 'v' FROM generate_series(1, 60000) g")
    pair.master.execute("INSERT INTO public.slow SELECT g, 'v' FROM generate_series(1, 1200) g")
    pair.capture()
    update = pair.update()
    pair.prepare(update)
    pair.slow_down("public.slow", 0.002)
    pair.load(update, 1)
    quick = [block.rows for block in pair.blocks("quick")]
    slow = [block for block in pair.blocks("slow") if block.hi is not None]
    assert max(quick) > 1_000, "a quick table's blocks grow"
    # A row takes 2 ms or more, so a block of the slow table never has much more than 100 rows.
    assert len(slow) >= 4 and all(block.rows < 300 for block in slow), "whatever the other table needs"
    pair.assert_equal()


@pytest.mark.long
def test_the_master_reads_no_stored_block_again(pair_of: MakePair) -> None:
    rows = 12_000
    pair = pair_of(block_rows=300, seconds=0.05)
    pair.master.execute("CREATE TABLE public.t (id int PRIMARY KEY, v text)")
    pair.master.execute(f"INSERT INTO public.t SELECT g, repeat('x', 50) FROM generate_series(1, {rows}) g")
    pair.capture()
    update = pair.update()
    pair.prepare(update)
    pair.slow_down("public.t", 0.00005)

    # Blocks come through the index, and only they fetch rows: bounds are found in the index alone, provided that all
    # pages are known to be visible to everybody. A snapshot of another session may keep VACUUM from saying so.
    def all_visible() -> bool:
        pair.master.execute("VACUUM (FREEZE, ANALYZE) public.t")
        row = pair.master.execute(
            "SELECT relallvisible = relpages FROM pg_class WHERE oid = 'public.t'::regclass"
        ).fetchone()
        return row is not None and bool(row[0])

    until(all_visible)
    database = pair.master.info.dbname
    pair.master.execute(f'ALTER DATABASE "{database}" SET enable_seqscan = off'.encode())
    pair.master.execute(f'ALTER DATABASE "{database}" SET enable_bitmapscan = off'.encode())

    def fetched() -> int:
        pair.master.execute("SELECT pg_stat_force_next_flush()")
        row = pair.master.execute(
            "SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_user_tables WHERE relname = 't'"
        ).fetchone()
        assert row is not None
        return int(row[0])

    before, again, kills = fetched(), 0, 0
    while True:
        process = killable(update)
        until(partial(begun_or_ended, pair, process))
        if kills < 3:
            threading.Event().wait(0.1)
            process.send_signal(signal.SIGKILL)
        if process.wait(120) == 0:
            break
        kills += 1
        # Two records tell a restart where it was: what was begun, and what is stored.
        begun = [block for block in pair.blocks() if block.state is BlockState.BEGUN]
        assert 1 <= len(begun) <= 2 and all(block.begun_at and block.loader and not block.marker for block in begun)
        for block in begun:
            again += int(block.hi[0] if block.hi else rows + 1) - int(block.lo[0] if block.lo else 1)
    assert kills >= 2
    stored = pair.blocks()
    assert all(b.state is BlockState.STORED and b.begun_at < b.stored_at and b.marker for b in stored)
    assert sum(block.rows for block in stored) == rows

    def counted() -> bool:
        """Whether the killed sessions have reported their counts."""
        return fetched() - before >= rows

    until(counted)
    assert rows <= fetched() - before <= rows + again, "only what was in hand at a kill was read twice"
    pair.assert_equal()


@pytest.mark.long
@pytest.mark.parametrize(("columns", "key", "make"), [
    ("a int, b text, c date, PRIMARY KEY (c, a, b)", "c, a, b", "g % 7, 'b' || g % 11, date '2024-01-01' + g"),
    ("id text PRIMARY KEY", "id", "chr(33 + g % 90) || g"),
    ("id uuid PRIMARY KEY", "id", "md5(g::text)::uuid"),
    ("id date PRIMARY KEY", "id", "date '0001-01-01 BC' + g * 37"),
    ("id int PRIMARY KEY", "id", "-g"),
    ("id bigint PRIMARY KEY", "id", "(power(g, 4))::bigint * 100003 - 9000000000000000000 + g"),
    ("id timestamptz PRIMARY KEY", "id", "CASE g WHEN 1 THEN '-infinity' WHEN 2 THEN 'infinity' ELSE now() - g * "
     "interval '1 day 1 microsecond' END::timestamptz"),
    ("id float8 PRIMARY KEY", "id", "CASE g WHEN 1 THEN 'NaN' WHEN 2 THEN '-Infinity' ELSE 1 / g::float8 END::float8"),
])  # fmt: skip
def test_blocks_follow_keys_of_every_kind(pair_of: MakePair, columns: str, key: str, make: str) -> None:
    pair = pair_of(block_rows=70, seconds=0.01)
    pair.master.execute(f"CREATE TABLE public.t ({columns}, v text)")
    # Inserted from the last to the first.
    names = ", ".join(part.split()[0] for part in columns.split(", PRIMARY")[0].split(", "))
    pair.master.execute(
        f"INSERT INTO public.t ({names}, v) SELECT {make}, 'v' || g FROM generate_series(2000, 1, -1) g".encode()
    )
    pair.capture()
    update = pair.update()
    pair.prepare(update)
    reports = pair.load(update, 2)
    blocks = pair.blocks()
    assert sum(report.rows for report in reports) == sum(block.rows for block in blocks) == 2000
    assert len(blocks) > 3 and all(block.rows for block in blocks)
    pair.assert_equal()
