"""A replication is made from its page, in a browser, with connections that Airflow has and real databases."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from sluice import config
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import connect
from tests.browser import axe
from tests.browser.rig import Monitor

pytestmark = pytest.mark.long
NAMES = ("fresh_master", "fresh_dr1")


@pytest.fixture
def ends(
    monitor: Monitor, database: Callable[..., ConnectionInfo], monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, ConnectionInfo]]:
    """Connections of Airflow to a master with tables, and to an empty database; the administrator's log-ins."""
    # As airflow.api_fastapi.main does: connections are looked up in the metadata.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    sides = {"master": database(), "slave dr1": database()}
    with connect(sides["master"], application="test", autocommit=True) as master:
        master.execute(
            b"""CREATE TABLE public.orders (id int PRIMARY KEY); CREATE TABLE public."<b>&" (id int PRIMARY KEY);
            CREATE SCHEMA other; CREATE TABLE other.t (id int PRIMARY KEY);
            DROP ROLE IF EXISTS fresh; CREATE ROLE fresh LOGIN PASSWORD 'a-secret'"""
        )
    headers = {"Authorization": f"Bearer {monitor.token('olga')}"}
    with httpx.Client(base_url=f"{monitor.url}/api/v2/", headers=headers, timeout=60) as api:
        for name, info in zip(NAMES, sides.values(), strict=True):
            body = {
                "connection_id": name, "conn_type": "postgres", "host": info.host, "port": info.port,
                "schema": info.database, "login": "fresh", "password": "a-secret",
            }  # fmt: skip
            api.post("connections", json=body).raise_for_status()
        yield sides
        for name in NAMES:
            api.delete(f"connections/{name}")
    (config.folders()[-1] / "FRESH.yaml").unlink(missing_ok=True)


def test_a_replication_is_made_by_choosing(
    ends: dict[str, ConnectionInfo], monitor: Monitor, browser: Browser, tmp_path: Path
) -> None:
    page = monitor.page(browser)
    page.set_default_timeout(120_000)
    page.goto(f"{monitor.url}/sluice/")
    page.get_by_role("link", name="New replication").click()
    page.get_by_label("Name", exact=True).fill("fresh")
    for label, name in (("Connection of the master", NAMES[0]), ("Connection of slave 1", NAMES[1])):
        select = page.get_by_role("combobox", name=label)
        select.select_option(select.locator("option", has_text=name).get_attribute("value"))
    page.get_by_label("Name of slave 1").fill("dr1")
    page.get_by_role("button", name="Test, and list the tables").click()
    main = page.get_by_role("main")
    for text in ("answers", 'public."<b>&"', "lacks SELECT, TRIGGER", "What check says"):
        expect(main).to_contain_text(text)
    faults = axe.faults_everywhere(page)
    page.screenshot(path=tmp_path / "tested.png", full_page=True)
    assert not faults, "\n".join(faults)
    page.get_by_role("button", name="Write the file").click()
    expect(page.get_by_role("alert")).to_contain_text("lacking, and nothing was changed")
    for _ in range(3):  # what is shown can be copied and run
        page.get_by_role("button", name="Test").first.click()
        expect(main).to_contain_text("Both ends")
        for item in page.locator(".issues li").all():
            side = item.inner_text().partition(":")[0]
            with connect(ends[side], application="test", autocommit=True) as administrator:
                administrator.execute(item.locator("pre").inner_text().encode())
    expect(main).to_contain_text("Check finds nothing that is lacking")
    page.get_by_label("all, also later ones").nth(1).uncheck()
    page.get_by_label("other.t").check()
    page.get_by_role("button", name="Write the file").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("FRESH_ is configured")
    page.screenshot(path=tmp_path / "written.png", full_page=True)
    made = config.load("FRESH_")
    assert {str(rule.pattern) for rule in made.tables} in (
        {"other.*", "public.*"},
        {"other.t", "public.*"},
        {"other.*"},
    )
    page.get_by_role("link", name="Initiate").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Initiate: FRESH_ → dr1")
    page.context.close()


@pytest.mark.parametrize("who", ["anna", "otto"])
def test_only_who_may_change_connections_makes_one(monitor: Monitor, browser: Browser, who: str) -> None:
    page = monitor.page(browser, who)
    page.goto(f"{monitor.url}/sluice/")
    expect(page.get_by_role("link", name="New replication")).to_have_count(0)
    assert page.goto(f"{monitor.url}/sluice/new/").status == 403  # type: ignore[union-attr]
    page.context.close()
