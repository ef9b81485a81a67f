"""Several slaves are loaded together over the wire: the master is read once, and what one slave fails in is its own."""

import threading
from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import Any

import psycopg
import pytest

from sluice.control.blocks import BlockStore
from sluice.executor import ThreadExecutor
from sluice.load import shared_load, steps
from sluice.load.load_job import LoadJob
from sluice.load.loader import BlockWriter
from sluice.load.update import Update
from sluice.model.slave_state import SlaveState
from spark_jobs.load import load_together
from tests.rig.net import Net, until
from tests.scenarios.initial_load.traffic import Traffic, Writable
from tests.scenarios.many.conftest import of_three_slaves

NAMES = ["one", "two", "three"]
KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name LIKE 'sluice load%' AND datname = current_database()"
)
ORDERS = Writable("public.orders", ("id",), "floor(random() * 3000)::int")


@pytest.fixture
def three(net: Net) -> Net:
    return of_three_slaves(net)


def prepared(net: Net, *names: str) -> list[Update]:
    """The update of these slaves up to TRANSITION."""
    net.capture("DEMO_")
    updates = [net.update("DEMO_", name, "the update") for name in names]
    for update in updates:
        steps.begin(update, net.store)
        steps.create_tables(update)
        steps.plan(update, net.store)
    return updates


def together(updates: list[Update]) -> None:
    """Runs the load job of all slaves."""
    load_together(updates, ThreadExecutor(4), threading.Event())


def left(net: Net, number: int) -> int:
    """The blocks that a slave lacks."""
    schema = "own" if number == 2 else "public"
    return int(net.at(f"s{number}", f"SELECT count(*) FROM {schema}.demo_blocks WHERE state <> 'stored'")[0][0])


def on_their_own(net: Net, updates: list[Update]) -> None:
    """Each slave's own load and apply bring it to NORMAL; all are equal to the master."""
    pairs = [("DEMO_", update.slave.name) for update in updates]
    with net.applying(*pairs) as running:
        for update in updates:
            net.load(update)
        for pair in pairs:
            net.await_current(*pair, running)
    for update in updates:
        steps.finish(update)
        net.assert_equal("m", update.slave.conn_id, "orders", "heap")


@pytest.mark.long
def test_the_master_is_read_once_for_three_slaves_under_traffic(three: Net, reads: Counter[str]) -> None:
    net = three
    updates = prepared(net, *NAMES)
    with Traffic(net.infos["m"], [ORDERS], writers=2) as traffic:
        until(lambda: traffic.transactions > 30)
        together(updates)
        assert [left(net, number) for number in (1, 2, 3)] == [0, 0, 0]
        blocks = net.at("s1", "SELECT schema, tablename, lo, hi, marker, rows FROM public.demo_blocks ORDER BY 1, 2, 3")
        assert len(blocks) > 3
        assert sum(reads.values()) == len(blocks)
        for place in ("s2", "s3"):
            schema = "own" if place == "s2" else "public"
            own = net.at(place, f"SELECT schema, tablename, lo, hi, marker, rows FROM {schema}.demo_blocks "
                                "ORDER BY 1, 2, 3")  # fmt: skip
            assert own == blocks, "the same keys, read at the same positions"
    on_their_own(net, updates)
    assert sum(reads.values()) == len(blocks), "nothing was left to the slaves' own loads"


def broken(update: Update) -> Update:
    """A stand-in for an unreachable slave."""
    return replace(update, slave_info=replace(update.slave_info, port=1))


@pytest.mark.long
@pytest.mark.parametrize("dead", ["the first", "another"])
def test_a_slave_that_is_dead_leaves_the_others_alone(
    three: Net, reads: Counter[str], dead: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr("spark_jobs.load.LONGEST_BACKOFF_SECONDS", 0.5)
    net = three
    updates = prepared(net, *NAMES)
    place = 0 if dead == "the first" else 2
    together([broken(update) if number == place else update for number, update in enumerate(updates)])
    assert [left(net, number) > 0 for number in (1, 2, 3)] == [number == place for number in range(3)]
    assert sum(reads.values()) == net.at("s2", "SELECT count(*) FROM own.demo_blocks")[0][0]
    on_their_own(net, updates)


@pytest.mark.long
def test_a_slave_that_takes_nothing_goes_its_own_way(three: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    net = three
    updates = prepared(net, *NAMES)
    # It is locked by somebody else: its first block is begun, and not one row of it stored.
    with LoadJob(updates[0]) as job, LoadJob(updates[2], job.name):
        with psycopg.connect(_dsn(net, "s3")) as locked:
            locked.execute("LOCK TABLE public.orders, public.heap")
            monkeypatch.setattr(shared_load, "PIECES_AHEAD", 1)
            shared_load.shared_worker([updates[0], updates[2]], job.loader(1), slow_seconds=0.5)
            assert (left(net, 1), left(net, 3) > 0) == (0, True)
        begun = "SELECT count(*) FROM public.demo_blocks WHERE state = 'begun'"
        until(lambda: net.at("s3", begun) == [(0,)])
    on_their_own(net, updates)


@pytest.mark.long
def test_a_slave_that_is_canceled_or_conflicts_leaves_the_others_alone(three: Net) -> None:
    net = three
    updates = prepared(net, *NAMES)
    net.at("s2", "ALTER TABLE public.orders ADD CHECK (id <> 1500) NOT VALID")
    steps.cancel(updates[2], net.store, "the disk of three is full")
    together(updates)
    found = net.checkpoint("DEMO_", "three")
    assert found and (found.state, found.message) == (SlaveState.INCONSISTENT, "the disk of three is full")
    assert left(net, 1) == 0 and left(net, 2) > 0
    net.at("s2", "ALTER TABLE public.orders DROP CONSTRAINT orders_id_check")
    on_their_own(net, updates[:2])


@pytest.mark.long
def test_rows_that_one_slave_needs_in_another_form_are_read_for_it_alone(three: Net) -> None:
    net = three
    net.at("s2", "ALTER TABLE public.orders ALTER id TYPE bigint")
    updates = prepared(net, *NAMES)
    together(updates)
    assert [left(net, number) > 0 for number in (1, 2, 3)] == [False, True, False]
    on_their_own(net, updates)


@pytest.mark.long
@pytest.mark.parametrize("place", ["offer", "write", "store"])
def test_a_slave_whose_sessions_die_half_way_loses_no_row(
    three: Net, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    net = three
    updates = prepared(net, *NAMES)
    cls: type = {"offer": shared_load.Follower, "write": BlockWriter, "store": BlockStore}[place]
    original = getattr(cls, place)
    dying = iter(range(1))

    def die(self: Any, *rest: Any) -> Any:
        if place == "offer" or threading.current_thread().name == "load three":
            for _ in islice(dying, 1):
                net.at("s3", KILL)
        return original(self, *rest)

    monkeypatch.setattr(cls, place, die)
    together(updates)
    assert next(dying, None) is None, "its sessions died"
    assert [left(net, 1), left(net, 2)] == [0, 0]
    on_their_own(net, updates)


def _dsn(net: Net, conn_id: str) -> str:
    info = net.infos[conn_id]
    return psycopg.conninfo.make_conninfo(
        host=info.host, port=info.port, dbname=info.database, user=info.user, password=info.password
    )
