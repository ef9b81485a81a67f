"""Tables that leave, by DROP or by the configuration, and come back: one slave keeps them, the other one drops them."""

from typing import Any

import pytest

from sluice.errors import Transient
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.loader import load_worker
from sluice.load.selection import Selection
from sluice.load.update import Update
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from sluice.vendors.postgres.target.alter import Alterer
from tests.rig.net import Net, until
from tests.scenarios.initial_load.traffic import Traffic, Writable

CONFIG = """
prefix: DEMO_
master: {conn_id: m, schema: public}
slaves:
  keeps: {conn_id: s1, schema: public}
  drops: {conn_id: s2, schema: public, on_drop: drop}
tables: {public.parents: {}, public.orders: {}, public.other: {}%s}
"""
PAIRS = [("DEMO_", "keeps"), ("DEMO_", "drops")]
CHILDREN = TableName("public", "children")
ORDERS = Writable("public.orders", ("id",), "floor(random() * 900)::int")
WITH = CONFIG % ", public.children: {}"
WITHOUT = CONFIG % ""


@pytest.fixture
def family(net: Net) -> Net:
    """Both slaves are NORMAL, with the foreign keys; their applies run, and somebody writes to another table."""
    net.configure(WITH)
    net.at("m", "CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    net.at("m", "CREATE TABLE public.other (id int PRIMARY KEY, t text)")
    net.at("m", "CREATE TABLE public.parents (id int PRIMARY KEY)")
    net.at("m", "CREATE TABLE public.children (id int PRIMARY KEY, p int REFERENCES public.parents, v text)")
    net.at("m", "INSERT INTO public.parents SELECT generate_series(1, 100)")
    net.at("m", "INSERT INTO public.children SELECT g, g, 'first' FROM generate_series(1, 100) g")
    updates = [net.update(*pair) for pair in PAIRS]
    for update in updates:
        net.prepare(update)
    with net.applying(*PAIRS) as running:
        for update, pair in zip(updates, PAIRS, strict=True):
            net.load(update)
            net.await_current(*pair, running)
            steps.finish(update)
            assert foreign_keys(net, update.slave.conn_id) == 1
    return net


def foreign_keys(net: Net, conn_id: str) -> int:
    return int(net.at(conn_id, "SELECT count(*) FROM pg_constraint WHERE contype = 'f'")[0][0])


def there(net: Net, conn_id: str, table: str = "children") -> bool:
    return bool(net.at(conn_id, f"SELECT to_regclass('public.{table}') IS NOT NULL")[0][0])


def current(net: Net, running: Any) -> None:
    for pair in PAIRS:
        net.await_current(*pair, running)
        assert net.state(*pair) is SlaveState.NORMAL


def leave(net: Net, how: str) -> list[Any]:
    """Removes the table; returns its last rows."""
    net.at("m", "UPDATE public.children SET v = 'last' WHERE id <= 10")
    last = net.at("m", "SELECT * FROM public.children ORDER BY id")
    if how == "configuration":
        net.capture("DEMO_")
        net.at("m", "DELETE FROM public.children WHERE id > 5")
    else:
        net.at("m", "DROP TABLE public.children")
    # What the table referred to goes: its rows on the slave are in nobody's way.
    net.at("m", "DELETE FROM public.parents WHERE id > 5")
    return last


def load(net: Net, slave: str, running: Any) -> None:
    """Loads a table that joins."""
    update = Update.named(net.pair("DEMO_", slave), f"join {slave}", Selection(tables=("public.children",)))
    steps.begin(update, net.store)
    steps.create_tables(update)
    steps.plan(update, net.store)
    with LoadJob(update) as job:
        load_worker(update, job.loader(1))
    until(lambda: not net.rig("DEMO_", slave).checkpoint.tables.not_ready, running)
    steps.finish(update)


@pytest.mark.long
@pytest.mark.parametrize("how", ["configuration", "drop"])
def test_a_table_leaves_under_traffic_and_comes_back_anew(family: Net, how: str) -> None:
    net = family
    # An apply ends in order when its file changes.
    if how == "configuration":
        net.configure(WITHOUT)
    with net.applying(*PAIRS) as running, Traffic(net.infos["m"], [ORDERS], writers=1):
        last = leave(net, how)
        current(net, running)
        assert net.at("s1", "SELECT * FROM public.children ORDER BY id") == last, "all before it left, nothing after"
        assert (there(net, "s2"), foreign_keys(net, "s1"), foreign_keys(net, "s2")) == (False, 0, 0)
        found = net.rig("DEMO_", "keeps").checkpoint.tables
        assert (found.former, dict(found.not_ready)) == ({CHILDREN}, {}), "nobody is asked to load it"
    # It comes back with rows, and with another definition than the one that was kept.
    if how == "drop":
        net.configure(WITHOUT)
        net.capture("DEMO_")
        net.at("m", "CREATE TABLE public.children (id int PRIMARY KEY, p int REFERENCES public.parents, v text)")
        net.at("m", "INSERT INTO public.children VALUES (1, 1, 'new')")
    net.at("m", "ALTER TABLE public.children ALTER v TYPE varchar(9), ADD w int DEFAULT 3")
    net.configure(WITH)
    with net.applying(*PAIRS) as running, Traffic(net.infos["m"], [ORDERS], writers=1):
        net.capture("DEMO_")
        net.at("m", "UPDATE public.children SET v = 'later', w = 4 WHERE id = 1")
        current(net, running)
        for _, slave in PAIRS:
            assert net.rig("DEMO_", slave).checkpoint.tables.state(CHILDREN) is TableState.ABSENT
            load(net, slave, running)
        net.at("m", "INSERT INTO public.children VALUES (99, 2, 'after', 1)")
    with net.applying(*PAIRS) as running:
        current(net, running)
    for conn_id in ("s1", "s2"):
        net.assert_equal("m", conn_id, "orders", "parents", "children")
        assert foreign_keys(net, conn_id) == 1
    assert not net.rig("DEMO_", "keeps").checkpoint.tables.former


@pytest.mark.long
@pytest.mark.parametrize("how", ["made again", "renamed to the name"])
@pytest.mark.parametrize("windows", ["one", "several"])
def test_a_table_takes_the_name_of_one_that_was_kept(family: Net, how: str, windows: str) -> None:
    net = family
    again = {
        "made again": ["CREATE TABLE public.children (id int PRIMARY KEY, t text)"],
        "renamed to the name": ["ALTER TABLE public.other RENAME TO children"],
    }[how]
    statements = [
        "DROP TABLE public.children", *again, "SELECT public.demo_check_structure()",
        "INSERT INTO public.children VALUES (7, 'x')",
    ]  # fmt: skip
    with net.applying(*PAIRS) as running:
        current(net, running)
        if windows == "several":
            for statement in statements:
                net.at("m", statement)
                current(net, running)
    if windows == "one":
        for statement in statements:
            net.at("m", statement)
    with net.applying(*PAIRS) as running:
        current(net, running)
    for conn_id, (_, slave) in zip(("s1", "s2"), PAIRS, strict=True):
        net.assert_equal("m", conn_id, "children")
        found = net.rig("DEMO_", slave).checkpoint.tables
        assert not found.former and not found.not_ready


@pytest.mark.long
def test_an_apply_that_dies_as_a_table_leaves_does_it_again(family: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    net = family
    released, release = [], Alterer.release

    def dying(self: Alterer, table: TableName) -> None:
        release(self, table)
        released.append(table)
        if len(released) == 1:
            raise Transient("killed")

    monkeypatch.setattr(Alterer, "release", dying)
    last = leave(net, "drop")
    with net.applying(PAIRS[0]) as running:
        net.await_current(*PAIRS[0], running)
    assert len(released) == 2 and net.at("s1", "SELECT * FROM public.children ORDER BY id") == last
    assert net.rig(*PAIRS[0]).checkpoint.tables.former == {CHILDREN}
