"""A master that is down, refuses, or has a standby that lags, during a load."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from devstack.postgres import PostgresServer
from sluice.errors import Terminal
from sluice.load import throttle
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from tests.rig.rig import MakePair, Rig, rows_of
from tests.scenarios.initial_load.throttled import Throttled, limit
from tests.standby import servers, standby_of


@pytest.fixture
def server() -> Iterator[Callable[[str], PostgresServer]]:
    """A factory of servers by name; all are removed after the test."""
    with servers() as make:
        yield make


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "LOOK_SECONDS", 0.1)


def shop(pair_of: MakePair, master: PostgresServer) -> Rig:
    pair = pair_of(block_rows=50, seconds=0.05, master=master.info())
    pair.master.execute("CREATE TABLE public.a (id bigint PRIMARY KEY, t text)")
    pair.master.execute("INSERT INTO public.a SELECT g, repeat('x', 90) FROM generate_series(1, 4000) g")
    return pair


def loading(pair: Rig) -> Throttled:
    update = pair.update()
    pair.prepare(update)
    pair.slow_down("public.a", 0.001)
    load = Throttled(pair, update)
    load.await_more(0)
    return load


@pytest.mark.long
def test_a_master_that_is_down_is_reported_and_awaited(
    pair_of: MakePair, server: Callable[[str], PostgresServer]
) -> None:
    master = server("master")
    master.start(die_with_parent=True)
    pair = shop(pair_of, master)
    load = loading(pair)
    master.stop()
    load.await_message(f"Initial update {load.update.update_id} waits: ")
    load.await_message("The server is down, restarting or not reachable from here.")
    assert pair.state() is SlaveState.TRANSITION
    master.start(die_with_parent=True)
    load.finish()
    assert load.message() == f"Initial update {load.update.update_id} is loading"
    pair.master = connect(master.info(), application="test", autocommit=True)
    pair.assert_equal()


@pytest.mark.long
def test_a_standby_that_lags_pauses_the_load(pair_of: MakePair, server: Callable[[str], PostgresServer]) -> None:
    master, standby = server("master"), server("standby")
    master.start(die_with_parent=True)
    standby_of(master, standby)
    pair = shop(pair_of, master)
    limit(pair, replica_lag=1)
    load = loading(pair)
    with connect(standby.info(), application="test", autocommit=True) as replica:
        replica.execute("SELECT pg_wal_replay_pause()")
        pair.master.execute("CREATE TABLE public.later AS SELECT 1")
        load.await_message("the lag of the master's standbys: ")
        load.assert_at_rest()
        replica.execute("SELECT pg_wal_replay_resume()")
    load.finish()
    table = TableName("public", "a")
    assert rows_of(pair.slave, table, pair.master) == rows_of(pair.master, table, pair.master)


def test_a_privilege_that_is_taken_away_ends_the_load_with_its_name(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=50, seconds=0.05, role=True)
    pair.master.execute("CREATE TABLE public.a (id bigint PRIMARY KEY, t text)")
    pair.master.execute("INSERT INTO public.a SELECT g, repeat('x', 90) FROM generate_series(1, 4000) g")
    load = loading(pair)
    pair.master.execute("REVOKE SELECT ON public.a FROM CURRENT_USER")
    with pytest.raises(Terminal, match="permission denied for table a"):
        load.finish()


@pytest.mark.long
def test_an_account_that_may_no_longer_log_in_ends_the_load(
    pair_of: MakePair, server: Callable[[str], PostgresServer]
) -> None:
    master = server("master")
    master.start(die_with_parent=True)
    pair = shop(pair_of, master)
    pair.master.execute("CREATE ROLE reader LOGIN SUPERUSER PASSWORD 'right'")
    update = pair.update()
    pair.prepare(update)
    update = replace(update, master_info=replace(pair.master_info, user="reader", password="wrong"))
    load = Throttled(pair, update)
    with pytest.raises(Terminal, match=r"password authentication failed.* Check user, password and database"):
        load.finish()
