"""The monitor as people see it: a real browser, a real Airflow, slaves in every state, three roles."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from sluice.coordination import redis_store
from sluice.coordination.gate import Gate
from sluice.model.connection import ConnectionInfo
from tests.airflow_connections import connect_airflow
from tests.airflow_home import ROOT
from tests.browser import axe
from tests.browser.rig import SHOP, STOCK, Monitor

LONG = ("sorted", "master", "rejects", "reports", "refused")
"""Pages that the quick tier leaves out: they are made of what the others show."""
PAGES = {
    "overview": "",
    "sorted": "?sort=lag",
    "slave": "slaves/SHOP_/tokyo/",
    "master": "masters/STOCK_/",
    "initiate": "actions/initiate?prefix=SHOP_&slave=tokyo",
    "rejects": "actions/rejects?prefix=SHOP_&slave=oslo",
    "reports": "reports/",
    "refused": "slaves/SHOP_/nobody/",
}
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 400, "height": 860}
SHOWN = 15_000
"""Milliseconds within which something must be seen; a page asks again every three seconds."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in PAGES]
)
def test_pages_can_be_read_by_everybody_in_light_and_dark_wide_and_narrow(
    monitor: Monitor, browser: Browser, name: str, tmp_path: Path
) -> None:
    faults = []
    page = monitor.page(browser)
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(f"{monitor.url}/sluice/{PAGES[name]}")
            expect(page.get_by_role("main")).not_to_be_empty()
            faults += [f"{scheme}, {size['width']}: {fault}" for fault in axe.faults(page)]
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= size["width"], f"{scheme}: the page is {width} wide in a window of {size['width']}"
    assert not faults, "\n".join(faults)
    assert not [one for one in complaints if "404" not in one or name != "refused"]
    page.context.close()


def test_from_something_is_red_to_the_remedy_in_two_clicks(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser, "otto")
    page.goto(f"{monitor.url}/sluice/")
    need = page.locator(".need", has_text="SHOP_ → tokyo")
    expect(need).to_contain_text("the row with id = 7 is not on the slave")
    need.get_by_role("link", name="Restart apply").click()
    page.get_by_role("button", name="Restart apply").click()
    expect(page.get_by_role("heading", name="Restart apply: started")).to_be_visible()
    started = page.get_by_role("main").get_by_role("link").first.inner_text()
    token = page.context.cookies()[0]["value"]
    run = page.request.get(
        f"{monitor.url}/api/v2/dags/cdc_apply/dagRuns/{started}", headers={"Authorization": f"Bearer {token}"}
    ).json()
    assert run["conf"] == {"prefix": "SHOP_", "slave": "tokyo"} and run["triggering_user_name"] == "otto"
    page.context.close()


@pytest.mark.long
def test_an_action_asks_why_and_leaves_who_and_why_in_the_audit_log(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser, "otto")
    page.goto(f"{monitor.url}/sluice/slaves/SHOP_/berlin/")
    page.get_by_role("link", name="Hold", exact=True).click()
    page.get_by_role("button", name="Hold").click()
    assert page.evaluate("document.getElementById('why').matches(':invalid')"), "the browser wants a reason"
    page.get_by_label("Why").fill('its disk is "replaced" </script>')
    page.get_by_role("button", name="Hold").click()
    expect(page.get_by_role("heading", name="Hold: started")).to_be_visible()
    olga = monitor.page(browser, "olga")
    token = olga.context.cookies()[0]["value"]
    events = olga.request.get(
        f"{monitor.url}/api/v2/eventLogs?order_by=-event_log_id&limit=5&event=trigger_dag_run",
        headers={"Authorization": f"Bearer {token}"},
    ).json()["event_logs"]
    assert events[0]["owner"] == "otto" and r"its disk is \"replaced\" </script>" in events[0]["extra"]
    page.context.close()
    olga.context.close()


def test_a_slave_that_falls_over_while_one_looks_turns_red_by_itself(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser, "anna")
    page.goto(f"{monitor.url}/sluice/slaves/SHOP_/berlin/")
    expect(page.get_by_role("main")).to_contain_text("Applies changes")
    monitor.say(SHOP, "berlin", state="INCONSISTENT", message="changes it needs were purged")
    expect(page.get_by_role("main")).to_contain_text(
        "The slave is INCONSISTENT: changes it needs were purged. Start an initial update.", timeout=SHOWN
    )
    page.context.close()


@pytest.mark.long
def test_what_one_finds_stays_found_while_the_page_refreshes(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser)
    page.goto(f"{monitor.url}/sluice/")
    page.get_by_role("searchbox").fill("dr2")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    monitor.say(STOCK, "dr2", state="INCONSISTENT", message="said later")
    expect(rows).to_contain_text("said later", timeout=SHOWN)
    assert page.get_by_role("searchbox").input_value() == "dr2"
    page.context.close()


@pytest.mark.long
def test_a_page_that_nobody_sees_asks_for_nothing(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "part=live" in request.url else None)
    page.goto(f"{monitor.url}/sluice/")
    with page.expect_response(lambda answer: "part=live" in answer.url, timeout=SHOWN):
        pass
    hide = "state => { Object.defineProperty(document, 'visibilityState', { value: state, configurable: true }); "
    page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange')); }", "hidden")
    before = len(asked)
    page.wait_for_timeout(4_000)  # longer than the three seconds between two looks
    assert len(asked) == before
    with page.expect_response(lambda answer: "part=live" in answer.url, timeout=SHOWN):
        page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange')); }", "visible")
    page.context.close()


@pytest.mark.parametrize(
    ("who", "offered"),
    [
        ("anna", set()),
        pytest.param("otto", {"Hold", "Verify"}, marks=pytest.mark.long),
        pytest.param("olga", {"Hold"}, marks=pytest.mark.long),
    ],
)
def test_buttons_that_one_may_not_press_are_not_there(
    monitor: Monitor, browser: Browser, who: str, offered: set[str]
) -> None:
    page = monitor.page(browser, who)
    page.goto(f"{monitor.url}/sluice/slaves/SHOP_/berlin/")
    found = set(page.locator(".actions a").all_inner_texts())
    assert offered <= found and bool(found) is bool(offered)
    page.goto(f"{monitor.url}/sluice/actions/hold?prefix=SHOP_&slave=berlin")
    refused = page.get_by_role("heading", name="You may not see or do that")
    expect(refused).to_have_count(0 if offered else 1)
    page.context.close()


def test_it_goes_with_the_keyboard_alone(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser)
    page.goto(f"{monitor.url}/sluice/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("Enter")
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(str(page.evaluate("document.activeElement.textContent.trim()")))
        if reached[-1] == "SHOP_ → tokyo":
            break
    page.keyboard.press("Enter")
    expect(page).to_have_title(re.compile("SHOP_ → tokyo"))
    page.context.close()


@pytest.mark.long
def test_in_the_frame_of_airflow_it_is_dark_when_airflow_is(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser)
    page.add_init_script("localStorage.setItem('theme', 'dark')")
    page.goto(f"{monitor.url}/plugin/sluice")
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Replications")).to_be_visible(timeout=60_000)
    assert frame.locator("html").get_attribute("data-theme") == "dark"
    icon = page.locator("nav img, a img").evaluate_all(
        "all => all.filter(one => one.src.includes('/sluice/static/')).map(one => one.naturalWidth)"
    )
    assert icon and all(icon), "Airflow's menu shows its icon"
    frame.get_by_role("link", name="tokyo", exact=True).click()
    expect(frame.get_by_role("heading", name="SHOP_ → tokyo")).to_be_visible(timeout=SHOWN)
    page.context.close()


@pytest.mark.long
def test_without_redis_the_page_says_so_and_shows_what_was_known(
    monitor: Monitor, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = monitor.page(browser)
    page.goto(f"{monitor.url}/sluice/")
    expect(page.get_by_role("main")).to_contain_text("SHOP_")
    monkeypatch.setenv("SLUICE_REDIS_URL", "redis://127.0.0.1:1/0")
    expect(page.get_by_role("alert")).to_contain_text("Redis does not answer", timeout=SHOWN)
    expect(page.get_by_role("main")).to_contain_text("tokyo")
    page.context.close()


@pytest.mark.long
def test_a_person_opens_the_gate_that_another_one_closed(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser, "otto")
    page.goto(f"{monitor.url}/sluice/")
    page.locator(".need", has_text="STOCK_ → dr1").get_by_role("link", name="Open the gate").click()
    page.get_by_role("button", name="Open the gate").click()
    expect(page.get_by_role("heading", name="Open the gate: started")).to_be_visible()
    with redis_store.connect(monitor.redis_url) as client:
        assert Gate(client, STOCK, "dr1").closures(), "the DAG opens it, not the page"
    page.context.close()


PICTURES = {
    "monitor-overview": ("", WIDE, "light"),
    "monitor-overview-dark": ("", WIDE, "dark"),
    "monitor-overview-narrow": ("", NARROW, "light"),
    "monitor-slave": ("slaves/SHOP_/berlin/", WIDE, "light"),
    "monitor-action": ("actions/initiate?prefix=SHOP_&slave=tokyo", WIDE, "light"),
}


@pytest.mark.long
def test_the_pictures_of_the_documentation_are_made_here(
    monitor: Monitor,
    browser: Browser,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    database: Callable[..., ConnectionInfo],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `--pictures docs/img` they replace those that are there."""
    connect_airflow(monkeypatch, "shop_berlin", database())
    folder = Path(pytestconfig.option.pictures or tmp_path)
    for name, (path, size, scheme) in PICTURES.items():
        page = monitor.page(browser, viewport=size, color_scheme=scheme)
        page.goto(f"{monitor.url}/sluice/{path}")
        page.screenshot(path=folder / f"{name}.png", full_page=True)
        page.context.close()
        assert (ROOT / "docs" / "img" / f"{name}.png").exists(), "the documentation has it"
