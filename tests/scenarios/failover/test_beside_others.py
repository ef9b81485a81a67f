"""Failovers beside another failover, beside a comparison, and of tables that are partitioned on the slave as well."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from sluice.coordination.records import FailoverClaim
from sluice.errors import Terminal
from sluice.failover.steps import Taken
from sluice.model.checkpoint import IsMaster
from sluice.model.failover import Phase
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres import digester
from sluice.vendors.postgres.source.write_guard import Guard
from sluice.verify.compare import CompareOptions
from sluice.verify.resync import compare_table
from tests.errors import raises_code
from tests.rig.loaders import Background
from tests.scenarios.failover.shop import FORCED, ODD, PLANNED, TABLES, VISITS, Shop
from tests.scenarios.failover.writer import Writers
from tests.waiting import until

pytestmark = pytest.mark.long


def test_one_of_two_simultaneous_failovers_goes_on(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    runs = [f"run {number}" for number in range(4)]
    start = threading.Barrier(len(runs))

    def begin(run: str) -> None:
        start.wait()
        shop.run("planned", ["begin", "guard"], run=run)

    with shop.applying():
        attempts = {run: Background(lambda run=run: begin(run)) for run in runs}  # type: ignore[misc]
        ended = {run: attempt.end() for run, attempt in attempts.items()}
        (first,) = [run for run, failure in ended.items() if failure is None]
        others = [failure for failure in ended.values() if failure is not None]
        assert all(isinstance(failure, Taken | Terminal) for failure in others), others
        assert shop.record.id == first and shop.record.phase is Phase.GUARDED
        shop.run("abort", ["abort"], run="abort")
        shop.master.execute("INSERT INTO public.customers (name) VALUES ('after')")
        shop.await_current()
    shop.assert_equal()


def test_one_of_another_slave_is_waited_for(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    claim = FailoverClaim(shop.store, shop.replication.prefix)
    claim.take("of dr2", "dr2")
    with shop.applying():
        with pytest.raises(Taken, match="failover of dr2 of slave dr2 is under way for the same master"):
            shop.run("planned", ["begin"])
        # Redis was emptied meanwhile: the master knows.
        claim.give_back("of dr2")
        Guard(shop.master, shop.replication.prefix, shop.replication.master.schema).claim("of dr2", "dr2")
        with raises_code("failover-not-ready", match="Failover of dr2 of slave dr2 is under way for this master"):
            shop.run("planned", ["begin"])


def test_a_comparison_that_runs_is_waited_for(shop_of: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch) -> None:
    shop = shop_of()
    asked, released = threading.Event(), threading.Event()
    of_blocks = digester.TableDigest.of_blocks

    def held(self: Any, connection: Any, part: Any) -> Any:
        asked.set()
        assert released.wait(60)
        return of_blocks(self, connection, part)

    monkeypatch.setattr(digester.TableDigest, "of_blocks", held)
    with shop.applying():
        comparison = Background(lambda: compare_table(shop.pair, shop.store, TABLES[0], CompareOptions()))
        until(asked.is_set)
        with raises_code(
            "failover-not-ready", match="The DAG resync compares or repairs the slave: wait until it is through"
        ):
            shop.run("planned", ["begin"])
        released.set()
        assert comparison.end() is None
        shop.run("planned", ["begin"], run="run 2")


def test_forced_with_reverse_and_nothing_kept_of_the_master(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    shop.lose("m")
    said = shop.run("forced", FORCED, reverse=True)
    assert "nothing is kept of the master" in said["complete"]
    assert "the former master needs an initial update" in said["follow"]
    for statement in (
        "INSERT INTO public.customers (name) VALUES ('new')", "INSERT INTO public.orders (customer) VALUES (1)",
        f'DELETE FROM {ODD}."Select" WHERE "order" = 1', "DELETE FROM public.slots WHERE id = 1",
        "DELETE FROM public.visits WHERE id = 1",
    ):  # fmt: skip
        shop.slave.execute(statement.encode())
    items = shop.slave.execute(
        f"SELECT DISTINCT tablename FROM {shop.pair.slave.schema}.demo_items".encode()
    ).fetchall()
    assert {name for (name,) in items} == {table.name for table in TABLES}


def test_tables_in_partitions_on_both_sides(shop_of: Callable[..., Shop]) -> None:
    default = "CREATE TABLE public.others PARTITION OF public.visits DEFAULT"
    shop = shop_of(there=f"{VISITS}; {default}")
    shop.master.execute(default.encode())
    shop.bring_functions("view")
    with Writers(shop.infos["m"], shop.new_master) as writers:
        until(lambda: writers.total() > 5)
        with suppress(IsMaster), shop.applying():
            shop.run("planned", PLANNED, reverse=True)
        assert shop.differences() == []
        shop.turn_round()
        shop.master.execute("INSERT INTO public.visits (\"Day\", v) VALUES ('2027-01-01', 'in the default partition')")
        with shop.applying():
            until(lambda: writers.total(shop.infos["s"]) > 5)
            shop.await_current()
            assert shop.checkpoint.state is SlaveState.NORMAL
    with shop.applying():
        shop.await_current()
    shop.assert_equal()
