"""A planned failover: the application moves over, and nothing is lost."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from sluice.airflow.steps_failover import failover_of
from sluice.failover import steps
from sluice.failover.switch import MasterChanged, TooLate
from sluice.load import steps as initial
from sluice.model.checkpoint import IsMaster
from sluice.model.failover import Phase
from sluice.model.slave_state import ForbiddenMove, SlaveState
from tests.errors import raises_code
from tests.scenarios.failover.shop import ODD, PLANNED, Shop
from tests.scenarios.failover.writer import Writers
from tests.waiting import until


def test_the_application_moves_over_with_all_it_had_committed(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    shop.bring_functions()
    with Writers(shop.infos["m"], shop.new_master) as writers:
        until(lambda: writers.total() > 20)
        with pytest.raises(IsMaster, match="is a master itself"), shop.applying() as running:
            said = shop.run("planned", PLANNED)
            until(lambda: running.failure)
        before = writers.total(shop.infos["s"])
        until(lambda: writers.total(shop.infos["s"]) > before + 20)
    assert writers.refused
    count = "SELECT (SELECT count(*) FROM public.customers), (SELECT count(*) FROM public.orders)"
    ours, theirs = writers.total(shop.infos["m"]), writers.total(shop.infos["s"])
    assert shop.slave.execute(count).fetchone() == (20 + ours + theirs, 200 + 2 * (ours + theirs))
    assert shop.master.execute(count).fetchone() == (20 + ours, 200 + 2 * ours)
    assert shop.checkpoint.state is SlaveState.MASTER
    assert shop.record.phase is Phase.FINISHED
    assert "is the master now" in said["switch_state"]
    assert shop.differences() == [
        "partitioning of public.visits: is missing", "view big_orders in public: is missing"
    ]  # fmt: skip
    # What the master did by itself, the slave does from now on.
    shop.slave.execute("DELETE FROM public.customers WHERE id = 1")
    assert shop.slave.execute("SELECT count(*) FROM public.orders WHERE customer = 1").fetchone() == (0,)
    assert shop.slave.execute("SELECT DISTINCT name FROM public.customers WHERE id > 20").fetchall() == [("NEW",)]
    assert shop.slave.execute(f"""SELECT nextval('{ODD}."Invoice No"')""").fetchone() == (115,)
    assert shop.slave.execute("SELECT count(*) FROM pg_constraint WHERE NOT convalidated").fetchone() == (0,)
    # The former master stays closed, whatever is run again.
    shop.run("planned", PLANNED)
    for statement in (
        "INSERT INTO public.slots VALUES (9, '[90,91)')", "TRUNCATE public.slots", f'DELETE FROM {ODD}."Select"',
        'UPDATE public.orders SET total = 0', "COPY public.slots FROM PROGRAM 'echo 1'",
    ):  # fmt: skip
        with pytest.raises(shop.REFUSED, match="is read-only: the database moves to"):
            shop.master.execute(statement.encode())


def test_a_slave_that_lacks_no_change_is_not_waited_for(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    with shop.applying():
        shop.await_current()
    position = shop.checkpoint.position  # which nobody moves from now on
    assert position is not None
    failover = failover_of(shop.work("planned"))
    with failover.on_master() as master:
        shop.master.execute(b"INSERT INTO public.left_behind VALUES (1)")
        younger = steps.position_of(failover, master)
        assert not position.covers_all_of(younger)
        assert steps.has_all(failover, master, position, younger)
        shop.master.execute(b"UPDATE public.orders SET total = 3 WHERE id = 7")
        assert not steps.has_all(failover, master, position, steps.position_of(failover, master))


@pytest.mark.long
def test_an_aborted_failover_leaves_both_as_they_were(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    shop.bring_functions()
    before = shop.catalogues()
    for last in range(2, len(PLANNED) - 2):
        with shop.applying():
            shop.run("planned", PLANNED[:last], run=f"run {last}")
            shop.run("abort", ["abort"], run="abort")
            assert shop.record.phase is Phase.ABORTED
            assert shop.catalogues() == before, f"after {PLANNED[last - 1]}"
            assert shop.checkpoint.state is SlaveState.NORMAL and not shop.checkpoint.message
            shop.master.execute(b"INSERT INTO public.customers (name) VALUES ('after')")
            shop.await_current()
    shop.assert_equal()


@pytest.mark.long
def test_a_failover_is_refused_beside_others(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    with shop.applying():
        shop.run("planned", PLANNED[:5])
        with raises_code(
            "failover-not-ready",
            match=r"Failover run 1 of this slave is under way \(guarded: the master refuses writes since 20",
        ):
            shop.run("planned", ["begin"], run="run 2")
        with raises_code("failover-not-ready", match="Failover run 1 of this slave is under way"):
            shop.run("forced", ["begin"], run="run 3", override=True)
        shop.run("abort", ["abort"], run="abort")
    with raises_code("failover-not-ready", match=r"answers\. Choose the action planned"):
        shop.run("forced", ["check", "begin"])
    with raises_code("failover-not-ready", match=r"No apply runs for the slave: trigger cdc_apply\."):
        shop.run("planned", ["begin"])
    update = shop.update()
    initial.begin(update, shop.store)
    with raises_code("failover-not-ready", match=r"An initial update of the slave runs \(state INITIAL\)"):
        shop.run("forced", ["begin"], override=True)


@pytest.mark.long
def test_an_initial_update_is_refused_beside_a_failover_and_after_it(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    with suppress(IsMaster), shop.applying():
        shop.run("planned", PLANNED[:7])
        with pytest.raises(ForbiddenMove, match="Wait for the failover, or abort it"):
            initial.begin(shop.update(), shop.store)
        shop.run("planned", PLANNED)
    with pytest.raises(ForbiddenMove, match="an initial update would empty it"):
        initial.begin(shop.update(), shop.store)
    with pytest.raises(TooLate, match="Fail over the other way round"):
        shop.run("abort", ["abort"], run="abort")


@pytest.mark.long
def test_a_master_that_is_written_to_all_the_same_does_not_lose_it(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    with shop.applying():
        shop.run("planned", PLANNED[:10])
        # Not captured by any trigger of ours, and refused by none: but this one names itself a replica's session.
        shop.master.execute(b"ALTER TABLE public.slots DISABLE TRIGGER demo_guard")
        with pytest.raises(MasterChanged, match=r"public\.slots would take writes"):
            shop.run("planned", ["switch_state"])
        shop.master.execute(b"INSERT INTO public.slots VALUES (9, '[90,91)')")
        shop.master.execute(b"ALTER TABLE public.slots ENABLE TRIGGER demo_guard")
        with pytest.raises(MasterChanged, match="ITEMS has changes that are younger"):
            shop.run("planned", ["switch_state"])
        shop.run("abort", ["abort"], run="abort")
        shop.await_current()
    shop.assert_equal()


@pytest.mark.long
def test_a_slave_that_differs_does_not_take_over(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    with shop.applying():
        shop.slave.execute(b"UPDATE public.orders SET total = 4711 WHERE id = 7")
        with raises_code("slave-differs", match=r"public\.orders: 1 row different, as \{'id': '7'\}"):
            shop.run("planned", PLANNED)
        shop.run("abort", ["abort"], run="abort")
        shop.master.execute(b"INSERT INTO public.customers (name) VALUES ('after')")


@pytest.mark.long
def test_a_checkpoint_in_redis_is_taken_along(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of(kept="redis")
    with Writers(shop.infos["m"], shop.new_master) as writers:
        until(lambda: writers.total() > 5)
        with suppress(IsMaster), shop.applying():
            shop.run("planned", PLANNED)
        until(lambda: writers.total(shop.infos["s"]) > 5)
    total = writers.total()
    assert shop.slave.execute("SELECT count(*) FROM public.customers").fetchone() == (20 + total,)
