"""The reversed direction: the former master follows the new one without a load, and back."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sluice import config
from sluice.airflow import connections
from sluice.airflow.pages import databases
from sluice.capture import reconcile
from sluice.failover.reversal import reversed_text
from sluice.model.checkpoint import IsMaster
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres import catalog
from tests.scenarios.failover.shop import PLANNED, Shop
from tests.scenarios.failover.writer import Writers
from tests.waiting import until


def test_the_former_master_follows_and_the_direction_is_turned_back(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    shop.bring_functions()
    shop.slave.execute(b"CREATE VIEW public.big_orders AS SELECT * FROM public.orders WHERE total > 100")
    original = shop.replication
    with Writers(shop.infos["m"], shop.new_master) as writers:
        until(lambda: writers.total() > 5)
        with suppress(IsMaster), shop.applying():
            said = shop.run("planned", PLANNED, reverse=True)
        assert "the former master is a slave, NORMAL at" in said["follow"]
        assert "mv " in said["follow"] and shop.replication == original, "nothing is overwritten"
        shop.turn_round()
        assert shop.replication.master.conn_id == "s" and shop.pair.slave.conn_id == "m"
        assert history(shop) == [("s", "m")] and "the master until" in databases._slave(shop.replication, "dr1").who
        with shop.applying():
            until(lambda: writers.total(shop.infos["s"]) > 10)
            shop.await_current()
            assert shop.checkpoint.state is SlaveState.NORMAL
            with pytest.raises(shop.REFUSED):
                shop.slave.execute(b"INSERT INTO public.slots VALUES (9, '[90,91)')")
        # Back again, the application still writing.
        with suppress(IsMaster), shop.applying():
            back = shop.run("planned", PLANNED, run="run 2", reverse=True)
        assert "the former master is a slave, NORMAL at" in back["follow"]
        shop.turn_round()
        assert shop.replication.master == original.master and shop.replication.slaves == original.slaves
        assert history(shop) == [("s", "m"), ("m", "s")]
        assert "the master until" in databases._slave(shop.replication, "dr1").who
        with shop.applying():
            before = writers.total(shop.infos["m"])
            until(lambda: writers.total(shop.infos["m"]) > before + 10)
            shop.await_current()
    total = writers.total()
    with shop.applying():
        shop.await_current()
    assert shop.master.execute("SELECT count(*) FROM public.customers").fetchone() == (20 + total,)
    shop.assert_equal()


def history(shop: Shop) -> list[tuple[str, str]]:
    """Who became the master in place of whom, as the pages of the slave and of the master show it."""
    names = {connections.info(name, info.vendor, "").server: name for name, info in shop.infos.items()}
    known = databases._slave(shop.replication, "dr1").switches
    assert known == databases._master(shop.replication).switches
    assert all(one.by == "anna" and one.action == "planned" and one.guarded_at < one.at for one in known)
    return [(names[one.master], names[one.former]) for one in known]


@pytest.mark.long
def test_a_former_master_that_was_written_to_needs_a_load(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    with suppress(IsMaster), shop.applying():
        shop.run("planned", PLANNED[:11], reverse=True)
    shop.master.execute(b"ALTER TABLE public.slots DISABLE TRIGGER demo_guard")
    shop.master.execute(b"INSERT INTO public.slots VALUES (9, '[90,91)')")
    said = shop.run("planned", PLANNED[11:], reverse=True)
    assert "the former master needs an initial update" in said["follow"]


def test_the_configuration_is_turned_round_and_back() -> None:
    text = """
prefix: DEMO_
master: {conn_id: m, schema: Ä}
slaves:
  dr2: {conn_id: t}
  dr1: {conn_id: s, on_conflict: reject}
tables: {'public.*': {}}
"""
    turned = reversed_text(text, "dr1")
    assert "Positions of dr2 are the former master's" in turned
    assert "conn_id: s\n" in turned.split("slaves:")[0] and "conn_id: m\n  " in turned.split("slaves:")[1]
    assert "on_conflict: reject" in turned and "Ä" in turned
    assert reversed_text(reversed_text(turned, "dr1"), "dr1") == turned


def test_excluded_tables_have_one_line_whatever_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
prefix: DEMO_
master: {conn_id: m}
slaves: {dr1: {conn_id: s}}
tables: {'public.*': {}, public.gone: {}}
"""
    odd = [TableName("public", "gone"), TableName("public", 'a*"b\n- c'), TableName("S.x", "d")]
    made = reversed_text(text, "dr1", left_over=odd, servers=("u@old:1/d", "u@new:1/d"))
    (tmp_path / "DEMO.yaml").write_text(made)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    rules = {rule.pattern.table: rule for rule in config.load("DEMO_").tables if not rule.pattern.wildcard}
    assert set(rules) == set(odd) and not any(rule.replicate for rule in rules.values())
    assert "The master is u@new:1/d. Slave dr1 is u@old:1/d, the former master." in made


@pytest.mark.long
def test_a_table_that_the_master_dropped_stays_out_of_the_new_direction(shop_of: Callable[..., Shop]) -> None:
    name = 'public."fx*""rate"'
    shop = shop_of(more=f"CREATE TABLE {name} (id int PRIMARY KEY); INSERT INTO {name} VALUES (1);")
    with suppress(IsMaster), shop.applying():
        shop.master.execute(f"DROP TABLE {name}".encode())
        of_master = shop.replication
        reconcile.reconcile(
            shop.sessions["m"],
            of_master.prefix,
            of_master.master.schema,
            of_master.resolve(catalog.tables(shop.master)),
        )
        shop.await_current()
        assert f"tables that only the slave has: {name}" in shop.run("check", ["check"])["check"]
        shop.run("planned", PLANNED, reverse=True)
    shop.turn_round()
    assert shop.slave.execute("SELECT to_regclass(%s)", [name]).fetchone() == (None,)
    assert shop.master.execute(f"SELECT id FROM {name}".encode()).fetchall() == [(1,)]
    new = shop.replication
    reconcile.reconcile(
        shop.sessions["s"], new.prefix, new.master.schema, new.resolve(catalog.tables(shop.sessions["s"]))
    )
    with shop.applying():
        shop.master.execute(f"INSERT INTO {name} VALUES (2)".encode())
        shop.master.execute("INSERT INTO public.customers (name) VALUES ('later')")
        shop.await_current()
    assert shop.slave.execute("SELECT to_regclass(%s)", [name]).fetchone() == (None,), "it was created again"
    shop.assert_equal()
