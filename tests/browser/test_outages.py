"""What the monitor shows while a slave's server, Redis or the master is down, and when it is back."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from devstack.account import new_folder
from devstack.postgres import PostgresServer
from devstack.redis import RedisServer
from devstack.server import Server
from sluice.model.connection import ConnectionInfo
from tests.airflow_connections import connect_airflow
from tests.browser.rig import Monitor
from tests.rig.rig import Rig

pytestmark = pytest.mark.long
SEEN = 60_000
"""Milliseconds within which a page must say it: looks and applies give up after some seconds, then say so."""
TABLES = "CREATE TABLE public.orders (id int PRIMARY KEY, v text)"


@pytest.fixture
def servers() -> Iterator[tuple[PostgresServer, PostgresServer, RedisServer]]:
    """A master, a slave and a Redis that a test may kill."""
    folder = new_folder("sluice-test-outages-")
    master, slave = (PostgresServer(folder / name, name=name, settings={"fsync": "off"}) for name in ("db1", "db2"))
    store = RedisServer(folder / "redis", settings={"appendonly": "no"})
    started: list[Server] = []
    try:
        for server in (master, slave, store):
            server.start(die_with_parent=True)
            started.append(server)
        yield master, slave, store
    finally:
        for server in started:
            server.stop()


@pytest.fixture
def pair(
    servers: tuple[PostgresServer, PostgresServer, RedisServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Rig:
    """A pair of these servers, the only one that the monitor knows."""
    master, slave, store = servers
    places = iter((master.info(), slave.info()))

    def database(**_: object) -> ConnectionInfo:
        return next(places)

    made = Rig.normal(database, store.url, tmp_path, TABLES)
    connect_airflow(monkeypatch, "m", made.pair.master_info)
    connect_airflow(monkeypatch, "s", made.pair.slave_info)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", store.url)
    return made


@pytest.fixture
def look(server: Monitor, browser: Browser) -> Iterator[Callable[[str], Page]]:
    """Opens pages as a user with the role operator."""
    page = server.page(browser, "otto")

    def opened(path: str) -> Page:
        page.goto(f"{server.url}/sluice/{path}")
        return page

    yield opened
    page.context.close()


def says(page: Page, text: str) -> None:
    expect(page.get_by_role("main")).to_contain_text(text, timeout=SEEN)


def says_no_more(page: Page, text: str) -> None:
    expect(page.get_by_role("main")).not_to_contain_text(text, timeout=SEEN)


def test_an_outage_is_shown_with_the_last_known_state_until_it_ends(
    pair: Rig, servers: tuple[PostgresServer, PostgresServer, RedisServer], look: Callable[[str], Page]
) -> None:
    master, slave, store = servers
    pair.master.execute("INSERT INTO public.orders VALUES (1, 'a')")
    with pair.apply():
        pair.await_current()
        page = look("slaves/DEMO_/dr1/")
        says(page, "Follows its master")
        says(page, "public.orders")

        slave.kill()
        says(page, "The slave's database could not be read")
        says(page, "The data below was read at")
        says(page, "The apply is waiting")
        says(page, "epoch 1")
        slave.start(die_with_parent=True)
        says_no_more(page, "could not be read")
        says(page, "Follows its master")
        says(page, "The apply goes on")

        store.stop()
        says(page, "Redis does not answer")
        says(page, "What follows was known at")
        says(page, "public.orders")
        overview = look("")
        says(overview, "Redis does not answer")
        says(overview, "dr1")
        store.start(die_with_parent=True)
        says_no_more(overview, "Redis does not answer")

        page = look("masters/DEMO_/")
        says(page, "as configured")
        master.kill()
        says(page, "The master's database could not be read")
        says(page, "as configured")
        overview = look("")
        says(overview, "Needs a look")
        says(overview, "The apply is waiting")
        overview.locator(".need").get_by_role("link", name="DEMO_ → dr1").click()
        says(overview, "Waits: ")
        master.start(die_with_parent=True)
        says(overview, "Follows its master")
