"""Servers that are killed under a failover: it continues or is undone, and one of them takes writes, never both."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest

from devstack.account import new_folder
from devstack.postgres import PostgresServer
from sluice.errors import SluiceError, Terminal, Transient
from sluice.failover.switch import TooLate
from sluice.model.checkpoint import IsMaster
from sluice.model.connection import ConnectionInfo
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from tests.rig.loaders import Background
from tests.scenarios.failover.shop import PLANNED, Ends, Shop
from tests.waiting import awaited, until

pytestmark = pytest.mark.long
BEFORE = PLANNED[1:4]
PARTS = PLANNED[4:11]
"""What the task `switch_over` does."""


@pytest.fixture
def servers() -> Iterator[dict[str, PostgresServer]]:
    """The servers of the databases `m` and `s`, which a test may kill."""
    folder = new_folder("sluice-test-failover-")
    made = {name: PostgresServer(folder / name, name=name, settings={"fsync": "off"}) for name in ("m", "s")}
    for server in made.values():
        server.start(die_with_parent=True)
    yield made
    for server in made.values():
        server.stop()


def takes_writes(info: ConnectionInfo) -> bool:
    """Whether an application can change rows there."""
    with connect(info, application="shop", autocommit=True) as session:
        try:
            session.execute(b"INSERT INTO public.customers (name) VALUES ('x')")
        except psycopg.errors.ReadOnlySqlTransaction:
            return False
    return True


def reconnect(shop: Shop) -> None:
    """Sessions of the test on servers that were killed."""
    shop.close()
    shop.sessions = {name: connect(info, application="test", autocommit=True) for name, info in shop.infos.items()}
    names = shop.replication.master.conn_id, shop.pair.slave.conn_id
    shop.master, shop.slave = (connect(shop.infos[name], application="test", autocommit=True) for name in names)


def undone(shop: Shop, run: str) -> bool:
    """Ends the failover as `settle` does. Whether it was undone; else the slave is the master."""

    def tried() -> bool | None:
        try:
            shop.run("abort", ["abort"], run="abort")
        except TooLate:
            return False
        except Transient:
            return None
        return True

    return awaited(lambda: [found] if (found := tried()) is not None else [])[0]


@pytest.mark.parametrize("killed", ["master", "slave"])
def test_one_master_is_left_wherever_a_server_is_killed(
    servers: dict[str, PostgresServer],  # first: its databases are dropped before it ends
    shop_of: Callable[..., Shop],
    database: Callable[..., ConnectionInfo],
    request: pytest.FixtureRequest,
    killed: str,
) -> None:
    chance = random.Random(request.config.option.run_number)
    shop = shop_of(ends=Ends.of_superusers({name: database(server=server) for name, server in servers.items()}))
    shop.bring_functions("view")
    for number, part in enumerate(PARTS):
        run = f"run {number}"
        with suppress(IsMaster), shop.applying():
            shop.run("planned", [*BEFORE, *PARTS[:number]], run=run, reverse=True)
            work = Background(lambda part=part, run=run: shop.run("planned", [part], run=run, reverse=True))  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.1))
            server = servers[shop.replication.master.conn_id if killed == "master" else shop.pair.slave.conn_id]
            server.kill()
            server.start(die_with_parent=True)
            failure = work.end()
            assert failure is None or isinstance(failure, SluiceError), failure
            reconnect(shop)
            if chance.random() < 0.5:  # Airflow runs the task again
                with suppress(Terminal):
                    until(lambda run=run: again(shop, run))  # type: ignore[misc]
            back = undone(shop, run)
        master, slave = shop.pair.master_info, shop.pair.slave_info
        state = shop.checkpoint.state
        assert state is (SlaveState.NORMAL if back else SlaveState.MASTER), part
        assert takes_writes(master) is back, part
        if not back:
            assert takes_writes(slave)
            said = shop.run("planned", PLANNED[11:], run=run, reverse=True)
            assert "is a slave, NORMAL at" in said["follow"], said
            shop.turn_round()
        with shop.applying():
            shop.await_current()
        shop.assert_equal()


def again(shop: Shop, run: str) -> bool:
    """Whether the task came to its end, at once or after an outage."""
    try:
        shop.run("planned", ["switch_over"], run=run, reverse=True)
    except Transient:
        return False
    return True
