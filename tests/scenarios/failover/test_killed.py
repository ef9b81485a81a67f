"""Failovers whose tasks are killed anywhere: they continue to the end, or back to the beginning."""

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from sluice import sql_files
from sluice.failover.switch import MasterChanged
from sluice.model.checkpoint import IsMaster
from sluice.model.failover import Phase
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.source.write_guard import Guard
from tests.scenarios.failover.killing import Killed, killed_at
from tests.scenarios.failover.shop import PLANNED, Shop
from tests.scenarios.failover.writer import Writers
from tests.waiting import until


def run_killed(shop: Shop, task: str, statement: int, run: str, action: str = "planned") -> bool:
    """Whether the task ended before it was killed."""
    try:
        with killed_at(statement):
            shop.run(action, [task], run=run, reverse=True)
    except Killed:
        return False
    return True


@pytest.mark.long
def test_tasks_that_are_killed_go_on_where_they_were(
    shop_of: Callable[..., Shop], request: pytest.FixtureRequest
) -> None:
    chance, shop = random.Random(request.config.option.run_number), shop_of()
    shop.bring_functions()
    before = shop.catalogues()
    with Writers(shop.infos["m"], shop.new_master) as writers:
        until(lambda: writers.total() > 3)
        with suppress(IsMaster), shop.applying():
            # First one that is given up somewhere, its abort being killed as well.
            run_killed(shop, "begin", chance.randrange(1, 20), "never begun")
            shop.run("abort", ["abort"], run="abort")
            last = chance.randrange(2, 10)
            shop.run("planned", PLANNED[:last], run="given up", reverse=True)
            run_killed(shop, PLANNED[last], chance.randrange(1, 60), "given up")
            for _ in range(3):
                run_killed(shop, "abort", chance.randrange(1, 40), "abort", "abort")
            shop.run("abort", ["abort"], run="abort")
            assert shop.catalogues() == before
            for task in PLANNED:
                for _ in range(2):
                    run_killed(shop, task, chance.randrange(1, 40), "run 1")
                shop.run("planned", [task], run="run 1", reverse=True)
        until(lambda: writers.total(shop.infos["s"]) > 3)
    assert shop.record.phase is Phase.FINISHED
    total = writers.total()
    assert shop.slave.execute("SELECT count(*) FROM public.customers").fetchone() == (20 + total,)
    assert shop.unmade() == []


@pytest.mark.long
def test_each_statement_of_a_failover_may_be_the_last_of_its_process(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    shop.bring_functions()
    with suppress(IsMaster), shop.applying():
        for task in PLANNED:
            # Each time a little further, with all that the attempts before have left.
            statement = 1
            while not run_killed(shop, task, statement, "run 1"):
                statement += 1
    assert shop.record.phase is Phase.FINISHED
    assert shop.checkpoint.state is SlaveState.MASTER
    assert shop.unmade() == []
    shop.assert_equal()


@pytest.mark.long
def test_each_statement_of_an_abort_may_be_the_last_of_its_process(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    shop.bring_functions()
    before = shop.catalogues()
    with shop.applying():
        shop.run("planned", PLANNED[:10], reverse=True)
        statement = 1
        while not run_killed(shop, "abort", statement, "abort", "abort"):
            statement += 1
        assert shop.catalogues() == before
        shop.master.execute(b"INSERT INTO public.customers (name) VALUES ('after')")
        shop.await_current()
    shop.assert_equal()


def test_a_guard_that_was_half_released_is_made_again(shop_of: Callable[..., Shop]) -> None:
    """The abort is killed before it has removed the triggers, or a person ran guard_release.sql."""
    shop = shop_of()
    names = {"prefix": "demo_", "schema": "sluice"}
    with shop.applying():
        shop.run("planned", PLANNED[:10])
        shop.master.execute(sql_files.render("postgres", "guard_release", **names).encode())
        with pytest.raises(MasterChanged, match="would take writes"):
            shop.run("planned", ["switch_state"])
        shop.run("abort", ["abort"], run="abort")
        # Triggers that could not be removed.
        guard = Guard(shop.master, shop.replication.prefix, "sluice")
        guard.close("an earlier failover")
        shop.master.execute(sql_files.render("postgres", "guard_release", **names).encode())
        shop.run("planned", PLANNED[:5], run="run 2")
        with pytest.raises(shop.REFUSED):
            shop.master.execute(b"INSERT INTO public.customers (name) VALUES ('lost')")
        shop.run("abort", ["abort"], run="abort 2")
        shop.master.execute(b"INSERT INTO public.customers (name) VALUES ('kept')")
        shop.await_current()
    shop.assert_equal()
