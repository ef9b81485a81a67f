"""Failovers by accounts that are no superusers, on the oldest release and the newest."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from devstack.postgres import PostgresServer
from devstack.postgres_releases import NEWEST, OLDEST
from sluice.airflow.steps_failover import failover_of
from sluice.failover import survey
from sluice.model.checkpoint import IsMaster
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import script
from sluice.model.slave_state import SlaveState
from tests.errors import raises_code
from tests.scenarios.failover.least import least
from tests.scenarios.failover.shop import PLANNED, Shop
from tests.scenarios.failover.writer import Writers
from tests.waiting import until

pytestmark = pytest.mark.long


@pytest.mark.parametrize(("master", "slave"), [(NEWEST, NEWEST), (OLDEST, OLDEST), (OLDEST, NEWEST)])
def test_lacks_are_listed_and_their_statements_are_sufficient(
    shop_of: Callable[..., Shop],
    database: Callable[..., ConnectionInfo],
    server_of_release: Callable[[int], PostgresServer],
    master: int,
    slave: int,
) -> None:
    with least(database, server_of_release(master), server_of_release(slave)) as ends:
        shop = shop_of(ends=ends)
        with (
            shop.applying(),
            raises_code("failover-not-ready", match="With reverse the master becomes a slave, and lacks what"),
        ):
            shop.run("planned", ["check"], reverse=True)
        facts = survey.gather_facts(failover_of(shop.work("planned", reverse=True)), shop.store)
        shop.bring_functions("view", "schema owner")
        for session, issues in ((shop.slave, facts.lacking), (shop.master, facts.lacking_turned)):
            print(*issues, sep="\n")
            session.execute(script(issues).encode())
        with Writers(shop.applications["m"], shop.new_master) as writers:
            until(lambda: writers.total() > 5)
            with suppress(IsMaster), shop.applying():
                said = shop.run("planned", PLANNED, reverse=True)
            assert "refused (" not in said["complete"]
            assert shop.unmade() == []
            assert "the former master is a slave, NORMAL at" in said["follow"]
            shop.turn_round()
            with shop.applying():
                until(lambda: writers.total(shop.applications["s"]) > 10)
                shop.await_current()
                assert shop.checkpoint.state is SlaveState.NORMAL
        with shop.applying():
            shop.await_current()
        shop.assert_equal()


@pytest.mark.parametrize(("master", "slave"), [(NEWEST, NEWEST), (OLDEST, NEWEST)])
def test_objects_that_the_account_may_not_create_are_left_to_a_person(
    shop_of: Callable[..., Shop],
    database: Callable[..., ConnectionInfo],
    server_of_release: Callable[[int], PostgresServer],
    master: int,
    slave: int,
) -> None:
    with least(database, server_of_release(master), server_of_release(slave)) as ends:
        shop = shop_of(ends=ends)
        before = shop.catalogues()
        with suppress(IsMaster), shop.applying():
            shop.run("planned", PLANNED[:9])
            shop.run("abort", ["abort"], run="abort")
            assert shop.catalogues() == before
            said = shop.run("planned", PLANNED, run="run 2")
        assert "privilege SCHEMA to shop_writer in public: is missing: refused (" in said["complete"]
        shop.bring_functions("schema owner")
        for line in said["complete"].splitlines():
            if "refused (" in line and line.endswith(";"):
                shop.slave.execute(line.partition("fix that and run: ")[2].encode())
        assert shop.unmade() == []
