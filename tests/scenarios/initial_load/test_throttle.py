"""A load under limits: each limit pauses it and lets it continue, and the reason is shown."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest

from sluice import config
from sluice.configuration.options import ThrottleOptions
from sluice.coordination.redis_checkpoint import StoredCheckpoint
from sluice.load import load_metrics, throttle
from sluice.load.load_metrics import require_measurable
from sluice.load.progress import progress
from sluice.model.checkpoint import Stored
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source import server_load
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.errors import raises_code
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_load.throttled import Throttled, limit
from tests.waiting import until

ROWS = 5_000


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "LOOK_SECONDS", 0.1)


@pytest.fixture
def shop(pair_of: MakePair) -> Rig:
    """A table that takes some seconds to load, in blocks of a twentieth of one."""
    return made(pair_of)


def made(pair_of: MakePair, **options: object) -> Rig:
    pair = pair_of(block_rows=50, seconds=0.05, **options)
    pair.master.execute("CREATE TABLE public.a (id bigint PRIMARY KEY, t text)")
    pair.master.execute(f"INSERT INTO public.a SELECT g, repeat('x', 90) FROM generate_series(1, {ROWS}) g".encode())
    pair.master.execute("CREATE SCHEMA other; CREATE TABLE other.knob (n int); INSERT INTO other.knob VALUES (0)")
    return pair


def begun(pair: Rig, **limits: object) -> Throttled:
    limit(pair, **limits)
    update = pair.update()
    pair.prepare(update)
    pair.slow_down("public.a", 0.001)
    return Throttled(pair, update)


@contextmanager
def active(pair: Rig, count: int) -> Iterator[None]:
    """In the block so many sessions execute a statement."""
    links = [connect(pair.master_info, application="an application", autocommit=True) for _ in range(count)]
    for link in links:
        link.pgconn.send_query(b"SELECT pg_sleep(120)")
    try:
        yield
    finally:
        for link in links:
            link.cancel()
            link.close()


@contextmanager
def waiting_for_a_lock(pair: Rig) -> Iterator[None]:
    holder, waiter = (connect(pair.master_info, application="an application") for _ in range(2))
    holder.execute("LOCK TABLE other.knob")
    waiter.execute("SELECT 1")
    waiter.pgconn.send_query(b"LOCK TABLE other.knob")
    try:
        yield
    finally:
        holder.close()
        waiter.close()


@contextmanager
def turned_up(pair: Rig) -> Iterator[None]:
    pair.master.execute("UPDATE other.knob SET n = 7")
    yield
    pair.master.execute("UPDATE other.knob SET n = 3")


# The server counts everybody's sessions, the test's own too: so no reason says how many are active.
CAUSES: dict[str, tuple[dict[str, object], Callable[[Rig], object], str]] = {
    "active sessions": ({"active_sessions": 2}, lambda pair: active(pair, 4), "active sessions on the master: "),
    "lock waits": ({"lock_waits": 0}, waiting_for_a_lock, "sessions that wait for locks on the master: 1, the limit"),
    "query": (
        {"query": "SELECT max(n) FROM other.knob", "query_limit": 3},
        turned_up,
        "the query of initial.throttle: 7, the limit is 3",
    ),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", CAUSES)
def test_a_busy_master_pauses_the_load_until_it_is_calm(shop: Rig, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sluice.load")
    limits, cause, reason = CAUSES[name]
    load = begun(shop, **limits)
    load.await_more(0)
    with cause(shop):  # type: ignore[attr-defined]
        load.await_message(reason)
        load.assert_at_rest()
        assert load.message().startswith(f"Initial update {load.update.update_id} waits: ")
        assert reason in str(progress(load.update))
        assert shop.state() is SlaveState.TRANSITION
    load.await_message("is loading")
    load.finish()
    shop.assert_equal()
    told = [record.getMessage() for record in caplog.records]
    assert any("DEMO_ → dr1: paused: " in line and reason.split(":")[0] in line for line in told)
    assert any("continues after a pause of" in line for line in told)
    assert load.message() == f"Initial update {load.update.update_id} is loading"


@pytest.mark.long
def test_a_load_waits_for_an_apply_that_is_far_behind(shop: Rig) -> None:
    load = begun(shop, apply_lag=0.5)
    load.await_message("the lag of the apply: ")
    load.assert_at_rest()
    with shop.apply():
        load.finish()
        shop.await_normal()
        shop.await_current()
    shop.assert_equal()


def test_the_lag_of_an_apply_that_keeps_its_position_in_redis_is_that_in_redis(shop: Rig, redis_url: str) -> None:
    shop = shop.with_slave(checkpoint="redis")
    update = shop.update()
    shop.prepare(update)
    shop.slave.execute("UPDATE public.demo_checkpoint SET position_time = now() - interval '1 hour'")
    start = shop.checkpoints.read()
    assert start is not None and start.position is not None
    stored = StoredCheckpoint(shop.store, update.prefix, "dr1")
    limits = ThrottleOptions(apply_lag=60)
    with load_metrics.LoadMetrics(update, redis_url=redis_url) as measuring:
        lag = measuring.read(limits).apply_lag
        assert isinstance(lag, float) and lag > 3599
        now = PostgresQueue(shop.master, update.prefix, "public").take(start.position)
        stored.write(Stored(1, start.position, now, 0))
        lag = measuring.read(limits).apply_lag
        assert isinstance(lag, float) and lag < 60


@pytest.mark.long
def test_a_person_pauses_a_load_and_changes_its_limits_in_the_file(shop: Rig) -> None:
    load = begun(shop)
    load.await_more(0)
    limit(shop, pause=True)
    load.await_message("waits: initial.throttle.pause is set in ")
    load.assert_at_rest()
    shop.replication.source.write_text(shop.replication.source.read_text().replace("pause", "paws"))
    load.await_message("it has mistakes")
    load.assert_at_rest()
    limit(shop, rows_per_second=1_000_000)
    load.await_message("is loading, at most 1,000,000 rows/s")
    load.finish()
    shop.assert_equal()


STORED = """
SELECT extract(epoch FROM stored_at - min(begun_at) OVER ())::float8 AS seconds,
       sum(rows) OVER (ORDER BY stored_at)::int AS rows
FROM public.demo_blocks WHERE state = 'stored' ORDER BY seconds
"""
"""When each block was stored, by the slave's clock, and the rows until then."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("limits", "allowed"), [({"rows_per_second": 1000}, 1000), ({"megabytes_per_second": 0.1}, 920)]
)
def test_all_workers_together_keep_to_a_rate(pair_of: MakePair, limits: dict[str, object], allowed: float) -> None:
    pair = made(pair_of)
    limit(pair, **limits)
    update = pair.update()
    pair.prepare(update)
    load = Throttled(pair, update)

    def stored() -> list[tuple[float, int]]:
        return pair.slave.execute(STORED).fetchall()

    until(lambda: load.over or (stored() or [(0, 0)])[-1][1] >= 2.5 * allowed)
    assert not load.over, load.failure
    for seconds, rows in stored():
        # A second's share of each worker may be under way, and the first blocks were made without knowing the rate.
        assert rows <= allowed * (seconds + 1.2), f"{rows} rows after {seconds:.1f} s"
    assert "at most" in load.message()
    limit(pair)
    load.await_message("is loading")
    load.finish()
    pair.assert_equal()


QUERIES = {
    "SELECT NULL": "it returns NULL instead of a number",
    "SELECT 'many'": "it returns 'many' instead of a number",
    "SELECT 'NaN'::float8": "it returns nan instead of a number",
    "SELECT 1, 2": "it returns 2 columns instead of one number",
    "SELECT 1 WHERE false": "it returns no row instead of one number",
    "SELECT generate_series(1, 3)": "it returns more than one row instead of one number",
    "SELECT no_such_column": 'it fails: “column "no_such_column" does not exist”',
    "SELECT count(*) FROM knob": 'it fails: “relation "knob" does not exist”',
    "SELECT pg_sleep(100)": "it fails: canceling statement due to statement timeout",
    "DELETE FROM other.knob": "it fails: cannot execute DELETE in a read-only transaction",
    "SET search_path = other": "it returns nothing",
}


@pytest.mark.long
def test_a_query_that_gives_no_number_pauses_the_load_and_is_mended_in_the_file(
    shop: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_metrics, "MEASURING", replace(load_metrics.MEASURING, statement_seconds=0.3))
    load = begun(shop, query="SELECT 0")
    load.await_more(0)
    for query, reason in QUERIES.items():
        limit(shop, query=query)
        load.await_message(reason)
        assert "fix that, or remove the limit from " in load.message()
    load.assert_at_rest()
    limit(shop, query="SELECT n FROM other.knob", query_limit=3)
    load.finish()
    shop.assert_equal()


def test_an_unmeasurable_limit_is_reported_before_the_load_begins(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(shop.replication.source.parent))
    limit(shop, query="SELECT 'x'", active_sessions=0, pause=True)
    shop = shop.with_options(initial=config.load("DEMO_").initial)
    with (
        active(shop, 1),
        raises_code("throttle-unusable", match=r"the query of initial\.throttle: it returns 'x'") as told,
    ):
        require_measurable(shop.update())
    assert str(told.value).count("\n- ") == 1, "busy is no mistake, nor is a pause"
    limit(shop, query="SELECT 1", lock_waits=0)
    shop = shop.with_options(initial=config.load("DEMO_").initial)
    require_measurable(shop.update())


@pytest.mark.long
def test_an_account_that_sees_no_other_sessions_is_told_what_to_grant(pair_of: MakePair) -> None:
    pair = made(pair_of, role=True)
    load = begun(pair, active_sessions=5)
    load.await_message("GRANT pg_read_all_stats TO it")
    limit(pair, lock_waits=5)
    load.finish()
    pair.assert_equal()


def test_a_canceled_load_does_not_wait_for_its_limits(shop: Rig) -> None:
    from sluice.load import steps
    from sluice.load.load_ownership import LoadEnded

    load = begun(shop, pause=True)
    load.await_message("waits")
    assert steps.cancel(load.update, shop.store)
    with pytest.raises(LoadEnded, match="interrupted by the ADMIN"):
        load.finish()
    assert load.message() == steps.INTERRUPTED
    row = shop.slave.execute("SELECT count(*) FROM public.demo_throttle").fetchone()
    assert row == (0,)


@pytest.mark.long
def test_sessions_of_the_throttle_end_with_the_load(shop: Rig) -> None:
    load = begun(shop, lock_waits=100, apply_lag=1000)
    load.finish()
    for link, info in ((shop.master, shop.master_info), (shop.slave, shop.slave_info)):
        ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'sluice %%' AND datname = %s"

        def gone(link: psycopg.Connection[object] = link, name: str = info.database, ours: str = ours) -> bool:
            return link.execute(ours.encode(), [name]).fetchone() == (0,)

        until(gone)


def test_nothing_is_measured_that_has_no_limit(shop: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr(server_load, "read", never)
    with load_metrics.LoadMetrics(shop.update()) as found:
        assert vars(found.read(ThrottleOptions(rows_per_second=5))) == dict.fromkeys(
            ("active_sessions", "lock_waits", "replica_lag", "query", "apply_lag")
        )
