"""An admin closes the gate of a slave, on real servers: Redis emptied, slave down, a slave of an old version."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.apply.admin_closure import AdminClosure
from sluice.coordination import redis_store
from sluice.coordination.redis_store import StoreUnreachable
from sluice.database.errors import DatabaseUnreachable
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from tests.errors import raises_code
from tests.rig.applying import Applying
from tests.rig.rig import Rig

TABLE = "CREATE TABLE public.t (id int PRIMARY KEY, v text)"
WHY = 'anna\'s "index" maintenance, 100 %'


def hold(pair: Rig, info: ConnectionInfo | None = None, redis_url: str = "") -> AdminClosure:
    store = redis_store.connect(redis_url or pair.redis_url)
    return AdminClosure(store, pair.pair.prefix, pair.pair.slave, info or pair.pair.slave_info)


def down(pair: Rig) -> ConnectionInfo:
    return replace(pair.pair.slave_info, host="127.0.0.1", port=1)


def rows(pair: Rig) -> list[str]:
    return pair.rows(pair.slave, TableName("public", "t"))


def await_closed(pair: Rig, running: Applying) -> None:
    """Waits until the apply waits and names who closed the gate, and why."""

    def says() -> bool:
        said = str(running.loop.report.status.read().get("activity"))
        return "the gate is closed: admin (anna, " in said and WHY in said

    pair.await_that(says)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kept", ["slave", "redis"])
def test_a_closed_gate_stays_closed_when_redis_is_emptied(rig: Callable[..., Rig], kept: str) -> None:
    pair = rig(TABLE, kept=kept)
    with pair.apply() as running:
        pair.await_applied(running)
        hold(pair).close("anna", WHY)
        at = hold(pair).gate.closures()
        await_closed(pair, running)
        redis_store.connect(pair.redis_url).flushall()
        pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
        pair.await_that(lambda: hold(pair).gate.closures() == at)
        await_closed(pair, running)
        assert rows(pair) == []
    redis_store.connect(pair.redis_url).flushall()
    with pair.apply() as running:
        await_closed(pair, running)
        assert rows(pair) == []
        assert hold(pair).open()
        pair.await_applied(running)
        assert rows(pair) == ["(1,a)"]
        redis_store.connect(pair.redis_url).flushall()
        pair.master.execute("INSERT INTO public.t VALUES (2, 'b')")
        pair.await_applied(running)
    assert rows(pair) == ["(1,a)", "(2,b)"]
    assert not hold(pair).open()


def test_an_emptied_redis_is_noticed_before_anything_is_committed(rig: Callable[..., Rig]) -> None:
    """The closure is only on the slave, as when Redis is emptied between the apply's check and the commit."""
    pair = rig(TABLE)
    with pair.apply() as running:
        pair.await_current()
        closure = hold(pair).gate.close("admin", "anna", WHY)
        hold(pair).gate.open("admin")
        pair.await_current()
        with pair.slave.transaction():
            pair.checkpoints.close(closure.text())
        pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
        await_closed(pair, running)
        assert rows(pair) == []
        assert hold(pair).open()
        pair.await_current()
    assert pair.differences() == {}


@pytest.mark.long
def test_a_gate_is_closed_while_the_slave_is_down_and_who_closes_it_is_reported(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE)
    with raises_code("closure-not-stored", match=r"in Redis only: .*127\.0\.0\.1:1/.* Close it again"):
        hold(pair, down(pair)).close("anna", WHY)
    assert pair.checkpoint.closed == ""
    pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
    with pair.apply() as running:
        await_closed(pair, running)
        hold(pair).close("anna", WHY)
        redis_store.connect(pair.redis_url).flushall()
        pair.await_that(lambda: bool(hold(pair).gate.closures()))
        with pytest.raises(DatabaseUnreachable):
            hold(pair, down(pair)).open()
        assert [closure.name for closure in hold(pair).gate.closures()] == ["admin"]
        await_closed(pair, running)
        assert rows(pair) == []
        assert hold(pair).open()
        pair.await_current()
    assert pair.differences() == {}


def test_without_redis_closing_fails(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE)
    with pytest.raises(StoreUnreachable):
        hold(pair, redis_url="redis://127.0.0.1:1/0").close("anna", WHY)
    assert pair.checkpoint.closed == ""


def test_an_opening_that_did_not_reach_redis_is_repeated(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE)
    hold(pair).close("anna", WHY)
    with pytest.raises(StoreUnreachable):
        hold(pair, redis_url="redis://127.0.0.1:1/0").open()
    assert [closure.name for closure in hold(pair).gate.closures()] == ["admin"]
    assert hold(pair).open()
    assert hold(pair).gate.closures() == []


def test_a_slave_without_a_checkpoint_cannot_keep_a_closure(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE)
    pair.slave.execute("DROP TABLE public.demo_checkpoint")
    with raises_code("closure-not-stored", match="no checkpoint before its initial update"):
        hold(pair).close("anna", WHY)
    assert hold(pair).open()


@pytest.mark.long
def test_a_slave_of_a_version_without_the_columns_goes_on_and_is_closed(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE)
    pair.slave.execute("ALTER TABLE public.demo_checkpoint DROP COLUMN closed, DROP COLUMN tables")
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
        pair.await_current()
        assert not hold(pair).open()
        hold(pair).close("anna", WHY)
        redis_store.connect(pair.redis_url).flushall()
        pair.master.execute("INSERT INTO public.t VALUES (2, 'b')")
        await_closed(pair, running)
        assert rows(pair) == ["(1,a)"]
        assert hold(pair).open()
        pair.await_current()
    assert pair.differences() == {}
