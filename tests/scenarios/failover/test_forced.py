"""A failover without the master: the slave takes over with what it has, and the loss is reported."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.airflow.steps_housekeeping import keep_definitions
from sluice.coordination.records import Status
from sluice.model.checkpoint import IsMaster
from sluice.model.connection import ConnectionInfo
from sluice.model.failover import Phase
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from tests.airflow_connections import connect_airflow
from tests.errors import raises_code
from tests.scenarios.failover.shop import FORCED, ODD, PLANNED, Shop
from tests.waiting import until


def test_the_slave_goes_on_with_what_it_has(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    shop.bring_functions()
    keep_definitions.body(shop.work("check"))
    with shop.applying():
        shop.master.execute(b"INSERT INTO public.customers (name) VALUES ('seen')")
        shop.await_current()
        until(lambda: Status(shop.store, Prefix("DEMO_"), "dr1").read().get("current_as_of"))
    shop.master.execute(b"INSERT INTO public.customers (name) VALUES ('lost'), ('lost')")
    shop.lose("m")
    said = shop.run("forced", FORCED)
    assert shop.checkpoint.state is SlaveState.MASTER and shop.record.phase is Phase.FINISHED
    position = shop.checkpoint.position
    assert position is not None
    assert f"What the master committed after {position.time} is lost; the apply saw it last at" in said["end_apply"]
    assert f'sequence {ODD}."Invoice No": set to 5110 by what was known at' in said["complete"]
    assert shop.unmade() == []
    # Neither serials nor identities give a number out again that the lost rows had.
    new = shop.slave.execute("INSERT INTO public.customers (name) VALUES ('next') RETURNING id, name").fetchone()
    assert new == (1022, "NEXT"), "21 was applied last, 1,000 are left free"
    order = shop.slave.execute("INSERT INTO public.orders (customer) VALUES (1022) RETURNING id").fetchone()
    assert order == (1201,)
    with pytest.raises(IsMaster, match="is a master itself"), shop.applying() as running:
        until(lambda: running.failure)


@pytest.mark.long
def test_a_master_that_comes_back_is_kept_apart_until_a_person_has_decided(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    shop.bring_functions()
    keep_definitions.body(shop.work("check"))
    with shop.applying():
        shop.master.execute(b"INSERT INTO public.customers (name) VALUES ('seen')")
        shop.await_current()
    shop.master.execute(b"INSERT INTO public.customers (name) VALUES ('l''o$sluice$st')")
    shop.master.execute(b"UPDATE public.orders SET total = 4711 WHERE id = 1")
    shop.master.execute(b"DELETE FROM public.slots WHERE id = 1")
    shop.lose("m")
    shop.run("forced", FORCED, reverse=True)
    shop.slave.execute(b"INSERT INTO public.customers (name) VALUES ('new')")
    connect_airflow(shop.patch, "m", shop.infos["m"])
    shop.master.execute(b"INSERT INTO public.customers (name) VALUES ('of an application that knows nothing')")
    for turned in (False, True):
        keep_definitions.body(shop.work("check"))
        former = shop.slave if turned else shop.master
        for statement in ("INSERT INTO public.customers (name) VALUES ('no')", "DELETE FROM public.orders"):
            with pytest.raises(shop.REFUSED, match="is the master since failover run 1"):
                former.execute(statement.encode())
        text = shop.run("check", ["check"])["check"]
        assert "a former master: 4; the new master lacks them" in text
        for line in (
            "INSERT public.customers: {'id': '22', 'name': \"L'O$SLUICE$ST\"}",
            "UPDATE public.orders: {",
            "'total': '4711'",
            "DELETE public.slots: {'id': '1'",
            "OF AN APPLICATION THAT KNOWS NOTHING",
        ):
            assert line in text, text
        if not turned:
            shop.turn_round()
    assert shop.checkpoint.state is SlaveState.INCONSISTENT
    assert "has 4 changes that the master" in shop.checkpoint.message
    shop.load()
    with shop.applying():
        shop.master.execute(b"INSERT INTO public.customers (name) VALUES ('flows')")
        shop.await_current()
        assert shop.checkpoint.state is SlaveState.NORMAL
        assert "a former master" not in shop.run("check", ["check"])["check"]
        assert keep_definitions.body(shop.work("check")) == "kept on dr1"
    shop.assert_equal()
    with pytest.raises(shop.REFUSED):
        shop.slave.execute(b"DELETE FROM public.orders")


@pytest.mark.long
def test_missing_definitions_of_the_master_are_reported(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    shop.lose("m")
    said = shop.run("forced", FORCED)
    assert "nothing is kept of the master: compare triggers, privileges and constraints by hand" in said["complete"]
    assert shop.slave.execute("INSERT INTO public.orders (customer) VALUES (1) RETURNING id").fetchone() == (1201,)


@pytest.mark.long
def test_a_master_that_dies_under_a_planned_failover(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    with shop.applying():
        shop.run("planned", PLANNED[:5])
    shop.lose("m")
    with pytest.raises(Exception, match="the master does not answer, and may refuse writes until"):
        shop.run("abort", ["abort"], run="abort")
    shop.run("forced", FORCED, run="run 2")
    assert shop.checkpoint.state is SlaveState.MASTER


@pytest.mark.long
def test_a_master_whose_server_is_there_and_has_lost_its_database_is_overridden(
    shop_of: Callable[..., Shop], database: Callable[..., ConnectionInfo]
) -> None:
    shop = shop_of()
    keep_definitions.body(shop.work("check"))
    for lost in (replace(shop.infos["m"], database="gone"), database()):
        connect_airflow(shop.patch, "m", lost)
        assert "master: cannot be read: " in shop.run("check", ["check"])["check"]
        with raises_code("failover-not-ready", match=r"is there, but: .*trigger this again with override"):
            shop.run("forced", ["check"])
    shop.run("forced", FORCED, override=True)
    assert shop.checkpoint.state is SlaveState.MASTER
