"""`./sluice remove` after a failover: neither database keeps an object of Sluice, and both accept writes."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from devstack.cli import parser
from devstack.postgres import PostgresServer
from sluice.airflow.steps_failover import failover_of
from sluice.cli import remove
from sluice.cli.where import Where
from sluice.errors import Terminal
from sluice.failover import survey
from sluice.model.checkpoint import IsMaster
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import script
from tests.catalogue import catalogue, differences
from tests.errors import raises_code
from tests.rig.console import Told
from tests.scenarios.failover.least import least
from tests.scenarios.failover.shop import FORCED, PLANNED, Shop

WRITES = b"INSERT INTO public.customers (name) VALUES ('later')"


def removed(shop: Shop, redis_url: str, *options: str, gone: tuple[str, ...] = ()) -> str:
    """The output of the command. `gone`: connections to servers that no longer exist."""

    def behind(conn_id: str, vendor: str) -> ConnectionInfo:
        return replace(shop.infos[conn_id], port=1) if conn_id in gone else shop.infos[conn_id]

    console = Told(yes=True)
    arguments = parser().parse_args(["remove", "DEMO", *options, "--airflow", "none"])
    remove.run(arguments, console, Where(shop.folder, None, behind, redis_url, ""))
    return console.text


def of_sluice(connection: psycopg.Connection[Any]) -> list[str]:
    """Everything in the catalogue with the name of an object of Sluice."""
    found = catalogue(connection)
    return [text for texts in found.values() for text in texts if "demo_" in text or "sluice." in text]


def failed_over(shop: Shop, **params: object) -> None:
    with suppress(IsMaster), shop.applying():
        shop.run("planned", PLANNED, **params)


def test_after_a_failover_with_reverse_the_former_master_is_as_before_add(
    shop_of: Callable[..., Shop],
    database: Callable[..., ConnectionInfo],
    postgres: PostgresServer,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.info().password)
    before = {}
    with least(database, postgres, postgres) as ends:

        def grant() -> None:
            with postgres.connect(ends.accounts["m"].database) as administrator:
                before.update(catalogue(administrator))
            ends.grant()

        shop = shop_of(ends=replace(ends, grant=grant))
        facts = survey.gather_facts(failover_of(shop.work("planned", reverse=True)), shop.store)
        shop.bring_functions("view", "schema owner")
        for session, issues in ((shop.slave, facts.lacking), (shop.master, facts.lacking_turned)):
            session.execute(script(issues).encode())
        failed_over(shop, reverse=True)
        with psycopg.connect(shop.master.info.dsn, password=postgres.info().password, autocommit=True) as application:
            with pytest.raises(shop.REFUSED):
                application.execute(WRITES)
            said = removed(shop, redis_url, "--revoke", "--admin", "postgres")
            assert "dr1 (" in said and "is the master since a failover" in said
            assert "master (" in said and "refuses writes to the replicated tables since a failover" in said
            application.execute(WRITES)
        shop.slave.execute(WRITES)
        changed = differences(before, catalogue(shop.master))
        of_the_shop = ("+ privileges:", "- privileges:")
        assert [one for one in changed if "| sluice |" in one or not one.startswith(of_the_shop)] == []
        bypasses = shop.master.execute("SELECT rolbypassrls FROM pg_roles WHERE rolname = 'sluice'").fetchone()
        assert bypasses == (False,)
        assert of_sluice(shop.slave) == []
    assert sorted(file.name for file in shop.folder.iterdir()) == ["DEMO.yaml.removed"]


@pytest.mark.long
def test_the_new_direction_in_force_is_removed_as_well(shop_of: Callable[..., Shop], redis_url: str) -> None:
    shop = shop_of()
    failed_over(shop, reverse=True)
    shop.turn_round()
    assert "dr1 (" in (said := removed(shop, redis_url)) and "refuses writes" in said
    for side in (shop.master, shop.slave):
        assert of_sluice(side) == []
        side.execute(WRITES)


@pytest.mark.long
def test_after_a_failover_without_reverse_nothing_stays(shop_of: Callable[..., Shop], redis_url: str) -> None:
    shop = shop_of()
    failed_over(shop)
    removed(shop, redis_url)
    for side in (shop.master, shop.slave):
        assert of_sluice(side) == []
        side.execute(WRITES)


@pytest.mark.long
def test_a_lost_database_is_skipped_on_request(shop_of: Callable[..., Shop], redis_url: str) -> None:
    shop = shop_of()
    shop.lose("m")
    shop.run("forced", FORCED)
    with raises_code("database-unreachable", match=r"^master: .*Nothing was removed.* Add --lost master\.$"):
        removed(shop, redis_url, gone=("m",))
    assert shop.checkpoint, "nothing was removed"
    with pytest.raises(Terminal, match="no such side to remove; there are master, dr1"):
        removed(shop, redis_url, "--lost", "dr9")
    said = removed(shop, redis_url, "--lost", "master", gone=("m",))
    assert "Should it come back, run uninstall.sql there" in said
    assert of_sluice(shop.slave) == []


@pytest.mark.long
def test_nothing_is_removed_under_a_failover(shop_of: Callable[..., Shop], redis_url: str) -> None:
    shop = shop_of()
    with shop.applying():
        shop.run("planned", PLANNED[:5])
        with raises_code("master-guarded", match="failover run 1 of slave dr1 is under way"):
            removed(shop, redis_url)
        with raises_code("failover-under-way", match="with the action abort"):
            removed(shop, redis_url, "--lost", "master")
        shop.run("abort", ["abort"], run="abort")
    removed(shop, redis_url)
    assert of_sluice(shop.master) == [] == of_sluice(shop.slave)


@pytest.mark.long
def test_a_slave_that_is_the_master_by_now_is_not_taken_out_of_the_old_direction(
    shop_of: Callable[..., Shop], redis_url: str
) -> None:
    shop = shop_of()
    failed_over(shop, reverse=True)
    file = shop.folder / "DEMO.yaml"
    file.write_text(file.read_text().replace("slaves:\n", "slaves:\n  dr2: {conn_id: t, allow_superuser: true}\n"))
    with raises_code("slave-is-master", match=r"mv .*DEMO\.yaml\.reversed .*DEMO\.yaml"):
        removed(shop, redis_url, "--slave", "dr1")
    assert shop.checkpoint.state == "MASTER"
