"""What the monitor shows while a slave's server, Redis or the master is down, and when it is back."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from devstack.account import new_folder
from devstack.postgres import PostgresServer
from devstack.redis import RedisServer
from devstack.server import Server
from sluice.airflow.pages import as_data, databases, gathering
from sluice.cli.airflow_api import AirflowApi
from sluice.coordination import lease, redis_store
from sluice.coordination.records import Status
from sluice.model.connection import ConnectionInfo
from sluice.model.failover import Action, Phase, Record, refusal
from sluice.model.monitor_data import SlaveOverview
from sluice.operate.open_runs import NOT_ASKED
from tests.airflow_connections import connect_airflow
from tests.browser.rig import Monitor, forget_runs
from tests.browser.test_truth import start
from tests.browser.told import OF_SLAVE, Told
from tests.rig.rig import Rig
from tests.waiting import until

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
    server: Monitor,
    servers: tuple[PostgresServer, PostgresServer, RedisServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
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
    forget_runs()
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
        says(page, "The apply continues")

        store.stop()
        says(page, "Redis does not answer")
        says(page, "What Redis said at")
        says(page, "What its apply does is not known: Redis does not answer")
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


def seen(server: Monitor, check: Callable[[Told], bool]) -> Told:
    """What all places say once the check holds."""
    found: list[Told] = []

    def holds() -> bool:
        found[:] = [Told(server, "DEMO_", "dr1")]
        return check(found[0])

    until(holds, 60)
    return found[0]


def of_new_server() -> SlaveOverview:
    """What an API server says of the slave that has just started: it remembers nothing."""
    with ThreadPoolExecutor(1) as beside:  # the browser's loop runs in this thread
        watch = gathering.Watch(databases.Databases(), lambda: NOT_ASKED)
        state = beside.submit(asyncio.run, watch.state()).result()
    (slave,) = as_data.overview(state, datetime.now(UTC))["masters"][0]["slaves"]
    return slave


NEVER = ("No initial update has begun yet", "Load it: ", "not loaded yet")
"""What is said of a slave that has no rows."""
ADVICE = ("estart it", "start it", "act restart", *NEVER)
"""What needs a Redis that works."""


def test_a_slave_is_what_its_checkpoint_says_whatever_redis_has_lost(
    pair: Rig, servers: tuple[PostgresServer, PostgresServer, RedisServer], server: Monitor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Accidents 3, 4 and 11: keys are evicted; FLUSHALL while no apply runs; Redis hangs, and the API server starts."""
    monkeypatch.setattr(gathering, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(databases, "AGAIN_SECONDS", 0.0)
    _, slave, store = servers
    pair.master.execute("INSERT INTO public.orders VALUES (1, 'a')")
    with redis_store.connect(store.url) as client:
        with pair.apply():
            pair.await_current()
            client.config_set("maxmemory-policy", "allkeys-lru")
            client.config_set("maxmemory", "1")
            for _ in range(5):
                client.delete(Status(client, pair.pair.prefix, "dr1").key)
                told = Told(server, "DEMO_", "dr1")
                assert told.slave["state"] == "NORMAL" and not any(map(told.saying, ADVICE)), told.places
            assert told.saying("its maxmemory-policy is allkeys-lru") >= {"overview", "status"}
            client.config_set("maxmemory", "0")
            client.flushall()
            told = seen(server, lambda one: one.slave["applying"] and one.slave["state"] == "NORMAL")
            assert told.slave["level"] == "fine", told.places
        client.flushall()
    told = seen(server, lambda one: not one.slave["applying"])
    assert told.slave["state"] == "NORMAL" and not any(map(told.saying, NEVER)), told.places
    assert told.saying("No apply runs") >= {"page", "overview", "status", "status of it", "overview.json"}
    slave.kill()
    told = seen(server, lambda one: one.saying("What it was at") >= {"page", "overview", "status"})
    assert told.slave["state"] == "NORMAL" and told.saying("Its database cannot be read")
    store.stop()
    alone = of_new_server()
    assert alone["state"] == "UNKNOWN" and "The state of the slave is not known" in alone["messages"][0]["text"]
    slave.start(die_with_parent=True)
    alone = of_new_server()
    assert alone["state"] == "NORMAL", alone
    assert not [one for one in alone["messages"] if any(text in one["text"] for text in ADVICE) or one["remedy"]]


def test_whether_a_master_refuses_writes_is_what_its_slave_says(
    pair: Rig, servers: tuple[PostgresServer, PostgresServer, RedisServer], server: Monitor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Of a failover that was killed while it switched Airflow knows no more than that its task is tried again."""
    monkeypatch.setattr(gathering, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(databases, "FRESH_SECONDS", 0.0)
    api = AirflowApi(server.url, token=server.token("olga"))
    begun, conf = "2026-11-22T10:00:00Z", {"prefix": "DEMO_", "slave": "dr1", "action": "planned"}
    run = start(api, "failover", "running", conf=conf, prepare="success", switch_over="up_for_retry")
    record = Record(run, Action.PLANNED, Phase.GUARDED, reverse=False, by="otto", begun_at=begun, guarded_at=begun)
    with pair.apply():
        told = seen(server, lambda one: one.slave["applying"])
        assert told.saying("The master takes writes meanwhile.") >= set(OF_SLAVE), told.places
        pair.checkpoints.say(refusal(record))
        told = seen(server, lambda one: one.saying("The master refuses writes meanwhile.") >= set(OF_SLAVE))
        assert "the master has refused writes since 2026-11-22 10:00:00 UTC" in told.places["master"]
        servers[1].kill()
        assert Told(server, "DEMO_", "dr1").saying("The master refuses writes meanwhile."), "its last answer"


def test_a_redis_that_is_full_or_refuses_is_named_in_place_of_advice(
    pair: Rig, servers: tuple[PostgresServer, PostgresServer, RedisServer], server: Monitor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Accidents 1 and 2: Redis takes nothing more, or takes a right away; then all is as before."""
    monkeypatch.setattr(gathering, "FRESH_SECONDS", 0.0)
    with redis_store.connect(servers[2].url) as client, pair.apply():
        pair.await_current()
        accidents = {
            "Redis is full": (
                lambda: client.config_set("maxmemory", "1"),
                lambda: client.config_set("maxmemory", "0"),
            ),
            "Redis refuses EVAL": (
                lambda: client.execute_command("ACL", "SETUSER", "default", "-pexpire"),
                lambda: client.execute_command("ACL", "SETUSER", "default", "+pexpire"),
            ),
        }
        for text, (break_it, fix) in accidents.items():
            break_it()
            # Each place is asked a moment after the other.
            told = seen(server, lambda one, text=text: one.saying(text) >= {"overview", "status"})  # type: ignore[misc]
            assert told.slave["state"] == "NORMAL"
            with redis_store.connect(servers[2].url) as other:
                other.delete(lease.key(pair.pair.prefix, "dr1"))
            told = Told(server, "DEMO_", "dr1")
            assert not any(map(told.saying, ADVICE)), told.places
            fix()
            told = seen(server, lambda one, text=text: not one.saying(text) and one.slave["applying"])  # type: ignore[misc]
            seen(server, lambda one: one.slave["level"] == "fine")
