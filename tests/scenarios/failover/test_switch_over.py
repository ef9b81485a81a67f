"""The task in which the master refuses writes: it is short, waits for nobody meanwhile, and gives the master back."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from sluice.cli.status import state
from sluice.coordination.records import Events
from sluice.errors import Terminal
from sluice.failover import steps
from sluice.model.checkpoint import IsMaster
from sluice.model.failover import Phase
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source import write_guard
from sluice.vendors.postgres.source.write_guard import Guard
from tests.errors import raises_code
from tests.rig.loaders import Background
from tests.scenarios.failover.shop import PLANNED, Shop
from tests.scenarios.failover.writer import Writers
from tests.waiting import until

BEFORE = ("check", "begin", "verify", "prepare")
WRITE = b"INSERT INTO public.customers (name) VALUES ('x')"


@pytest.mark.long
def test_a_failure_after_the_guard_gives_the_master_back_at_once(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    shop.bring_functions()
    before = shop.catalogues()
    with shop.applying():
        shop.run("planned", BEFORE)
        shop.master.execute(WRITE)  # what is prepared refuses nothing
        with shop.slave.transaction():
            # A reader of the slave, before whose end no foreign key can be replaced.
            shop.slave.execute(b"SELECT * FROM public.orders")
            with pytest.raises(Terminal, match=r"lock timeout\. Failover run 1 is aborted: the master takes writes"):
                shop.run("planned", ["switch_over"])
        assert shop.record.phase is Phase.ABORTED
        shop.master.execute(WRITE)
        shop.await_current()
        assert shop.checkpoint.state is SlaveState.NORMAL
    assert shop.catalogues() == before
    shop.assert_equal()


@pytest.mark.long
def test_a_long_transaction_is_waited_for_before_anything_is_refused(
    shop_of: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of()
    with suppress(IsMaster), shop.applying(), connect(shop.infos["m"], application="shop") as long:
        shop.run("planned", BEFORE)
        long.execute(WRITE)
        failover = Background(lambda: shop.run("planned", ["switch_over"]))
        guard = Guard(shop.master, shop.replication.prefix, "sluice")
        until(
            lambda: shop.master.execute(
                "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'sluice failover%' "
                "AND query LIKE '%pg_locks%'"
            ).fetchone()
        )
        for _ in range(20):
            shop.master.execute(WRITE)
        assert not any(one.refuses for one in guard.tables())
        long.commit()
        assert failover.end() is None
    assert shop.checkpoint.state is SlaveState.MASTER
    shop.assert_equal()


def test_a_transaction_that_does_not_end_leaves_the_master_as_it_is(
    shop_of: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of()
    monkeypatch.setattr(write_guard, "CALM_SECONDS", 1.0)
    monkeypatch.setattr(write_guard, "END_SECONDS", 0.2)
    guard = Guard(shop.sessions["m"], shop.replication.prefix, "sluice")
    guard.lay()
    with connect(shop.infos["m"], application="shop") as long:
        long.execute(WRITE)
        pid = long.info.backend_pid
        with raises_code("master-busy", match=rf"public\.customers \(process {pid}\)"):
            guard.close("moved")
        shop.master.execute(WRITE)
        # It began after the guard had looked.
        monkeypatch.setattr(Guard, "_await_calm", lambda self: None)
        with raises_code("master-busy", match="does not end within"):
            guard.close("moved")
        shop.master.execute(WRITE)
        long.execute(WRITE)
        long.commit()
    guard.close("moved")
    with pytest.raises(shop.REFUSED, match="moved"):
        shop.master.execute(WRITE)
    guard.release()
    shop.master.execute(WRITE)


@pytest.mark.long
def test_the_application_moves_over_in_one_task(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of()
    shop.bring_functions()
    with Writers(shop.infos["m"], shop.new_master) as writers:
        until(lambda: writers.total() > 20)
        with suppress(IsMaster), shop.applying():
            shop.run("planned", [*BEFORE, "switch_over", "follow", "finish"], reverse=True)
        until(lambda: writers.total(shop.infos["s"]) > 20)
    assert shop.slave.execute("SELECT count(*) FROM public.customers").fetchone() == (20 + writers.total(),)
    told = "\n".join(event.text for event in Events(shop.store, shop.replication.prefix, "dr1").read())
    assert "refuses writes, for failover run 1" in told and "is the master in place of" in told
    assert ": planned, by anna" in told


@pytest.mark.long
def test_transactions_that_a_crashed_master_numbers_again_are_not_taken_for_applied(
    shop_of: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slave that rests has seen transaction IDs that leave no trace in the log. After a crash the master gives them
    out again, before an apply has begun again."""
    shop = shop_of()
    with shop.applying():
        shop.await_current()
        shop.run("planned", BEFORE)
    rested = SnapshotPosition.of(shop.checkpoint.position)  # type: ignore[arg-type]
    far = replace(rested, xmin=rested.xmax + 1000, xmax=rested.xmax + 1000, xip=frozenset(), marked=rested.restart)
    shop.slave.execute(b"UPDATE sluice.demo_checkpoint SET position = %s", [far.text()])
    shop.master.execute(WRITE)
    shop.run("planned", ["guard"])
    assert "NORMAL" in (shown := state("DEMO_ → dr1", shop.checkpoint, None))
    assert "The master refuses writes since 20" in shown and "for failover run 1" in shown
    monkeypatch.setattr(steps, "REACH_SECONDS", 1.0)
    with raises_code("last-position-not-reached"):
        shop.run("planned", ["reach"])
    monkeypatch.setattr(steps, "REACH_SECONDS", 60.0)
    with suppress(IsMaster), shop.applying():
        shop.run("planned", PLANNED[5:])
    assert shop.checkpoint.state is SlaveState.MASTER
    shop.assert_equal()
