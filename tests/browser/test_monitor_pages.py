"""The monitor as people see it: a real browser, a real Airflow, slaves in every state, three roles."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from sluice import config
from sluice.airflow.pages import gathering
from sluice.capture import resources
from sluice.coordination import lease, redis_store
from sluice.coordination.gate import Gate
from sluice.coordination.verification_log import VerificationLog
from sluice.database.broadcasts import Query
from sluice.model.broadcast import Answer
from sluice.model.connection import ConnectionInfo
from sluice.operate.actions import ACTIONS, Scope
from sluice.operate.broadcast import ask, read
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source.broadcasts import PostgresBroadcasts
from tests.airflow_connections import connect_airflow
from tests.airflow_home import ROOT
from tests.browser import axe
from tests.browser.axe import NARROW, WIDE
from tests.browser.rig import PASSWORD, REPORT, ROLES, SHOP, STOCK, Monitor, beat

QUICK = ("overview", "slave", "initiate")
"""Pages that the quick tier looks at: the others are made of what these show."""
PAGES = {
    "overview": "",
    "sorted": "?sort=lag",
    "slave": "slaves/SHOP_/tokyo/",
    "master": "masters/STOCK_/",
    "initiate": "actions/initiate?prefix=SHOP_&slave=tokyo",
    "rejects": "actions/rejects?prefix=SHOP_&slave=oslo",
    "nothing found": "?find=no+slave+says+that",
    "reports": "reports/",
    "topology": "topology/",
    "report": f"reports/{REPORT}/",
    "queries": "masters/SHOP_/queries/",
    "rehearsals": "masters/SHOP_/rehearsals/",
    "refused": "slaves/SHOP_/nobody/",
    "nowhere": "nothing/",
    "incomplete": "actions/hold",
}
WRONG = {"refused": "404", "nowhere": "404", "incomplete": "422"}
"""What the browser says of the pages that are none."""
DIFFER = ("overview", "slave", "master", "initiate", "report")
"""Pages that are not the same for everybody."""
SHOWN = 15_000
"""Milliseconds within which something must be seen; a page asks again every three seconds."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "who"),
    [
        pytest.param(name, who, marks=() if name in QUICK and who == "olga" else pytest.mark.long)
        for name in PAGES
        for who in (ROLES if name in DIFFER else ["olga"])
    ],
)
def test_pages_can_be_read_by_everybody_in_light_and_dark_wide_and_narrow(
    monitor: Monitor, browser: Browser, name: str, who: str
) -> None:
    page = monitor.page(browser, who)
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    faults = axe.faults_everywhere(page, f"{monitor.url}/sluice/{PAGES[name]}")
    assert not faults, "\n".join(faults)
    refused = "403" if (name, who) == ("initiate", "anna") else WRONG.get(name, "$^")
    assert not [one for one in complaints if not re.search(refused, one)]
    page.context.close()


@pytest.mark.long
def test_each_form_is_accessible_and_shows_its_effect_or_the_missing_permission(
    monitor: Monitor, browser: Browser
) -> None:
    pages = {who: monitor.page(browser, who) for who in ("anna", "otto", "olga")}
    for action in ACTIONS.values():
        slave = "&slave=oslo" if action.scope is Scope.SLAVE else ""
        address = f"{monitor.url}/sluice/actions/{action.name}?prefix=SHOP_{slave}"
        faults = axe.faults_everywhere(pages["olga"], address)
        assert not faults, "\n".join(faults)
        pages["anna"].goto(address)
        pages["otto"].goto(address)
        for who, said in (
            ("olga", action.does),
            ("otto", "the right to administer" if action.administer else action.does),
            ("anna", f"the right to trigger the DAG {action.dag}"),
        ):
            expect(pages[who].get_by_role("main")).to_contain_text(said)
    assert not axe.faults(pages["anna"])
    for page in pages.values():
        page.context.close()


@pytest.mark.long
def test_a_refused_form_shows_the_reason_and_keeps_its_values(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser, "otto")
    page.goto(f"{monitor.url}/sluice/actions/verify?prefix=SHOP_&slave=oslo")
    page.get_by_label("Sample").fill('"many"')
    page.get_by_label("Tables").fill("public.<b>")
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_role("alert")).to_contain_text("""Sample: '"many"' is no number of rows. Write 0 for all.""")
    expect(page.get_by_label("Tables")).to_have_value("public.<b>")
    assert not axe.faults_everywhere(page)
    page.context.close()


@pytest.mark.long
def test_a_logged_out_user_is_redirected_to_the_login(monitor: Monitor, browser: Browser) -> None:
    page = browser.new_context().new_page()
    assert not axe.faults_everywhere(page, f"{monitor.url}/sluice/actions/hold?prefix=SHOP_&slave=oslo")
    page.get_by_role("link", name="Log in").click()
    page.get_by_label("Username").fill("olga")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Hold: SHOP_ → oslo")).to_be_visible(timeout=60_000)
    page.context.close()


@pytest.mark.long
def test_queries_show_each_answer_and_hide_values_from_readers(
    monitor: Monitor, browser: Browser, database: Callable[..., ConnectionInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    info = database()
    connect_airflow(monkeypatch, "shop_master", info)
    replication = config.load("SHOP_")
    with connect(info, application="test", autocommit=True) as master:
        resources.install(master, SHOP, replication.master.schema)
        query = ask(replication, info, Query("SELECT 4711 AS n", "olga"))
        same = read(replication, info, query).master
        assert same
        other = Answer.of(("n",), [("4712",)], 10)
        for slave, answer in {"oslo": same, "tokyo": other, "lima": Answer(error="<timeout> after 10 s")}.items():
            PostgresBroadcasts(master, SHOP, replication.master.schema).answer(query, slave, answer)
    address = f"{monitor.url}/sluice/masters/SHOP_/queries/"
    for who, visible in (("olga", True), ("anna", False)):
        page = monitor.page(browser, who)
        faults = axe.faults_everywhere(page, address)
        assert not faults, "\n".join(faults)
        for slave, state in {"berlin": "waiting", "oslo": "equal", "tokyo": "different", "lima": "failed"}.items():
            expect(page.locator("tbody tr", has_text=slave).locator(".answer")).to_have_text(state)
        for value in ("4711", "4712", "<timeout>"):
            assert (value in page.get_by_role("main").inner_text()) is visible, value
        expect(page.get_by_role("link", name="Ask all databases")).to_have_count(1 if visible else 0)
        page.context.close()


@dataclass
class Red:
    """Something that is red, and what helps."""

    slave: str
    text: str
    remedy: str
    dag: str
    conf: dict[str, Any]
    says: dict[str, Any] | None = None
    """What the apply of the slave says; None: what it says anyway."""


UPDATE = {"transfer": "online", "tables": []}
REDS = {
    "stopped": Red("tokyo", "the row with id = 7 is not on the slave", "Restart apply", "cdc_apply", {}),
    "inconsistent": Red(
        "berlin", "changes it needs were purged", "Initiate", "initial_update", {**UPDATE, "location": None},
        {"state": "INCONSISTENT", "message": "changes it needs were purged"},
    ),
    "not loaded": Red(
        "berlin", "1 table not loaded", "Reload tables", "initial_update", {**UPDATE, "tables": ["public.new"]},
        {"not_ready": {"public.new": "absent"}},
    ),
    "different": Red(
        "berlin", "Not equal to the master", "Repair", "resync",
        {"action": "repair", "tables": ["public.orders"], "sample": 0},
    ),
    "rejects": Red(
        "oslo", "public.orders are set aside", "Settle rejects", "rejects",
        {"action": "apply", "ids": "all", "force": False},
    ),
    "nobody applies": Red("lima", "No apply runs", "Restart apply", "cdc_apply", {}),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.long) if what != "stopped" else what for what in REDS]
)
def test_the_remedy_is_two_clicks_from_the_red_lamp(monitor: Monitor, browser: Browser, what: str) -> None:
    red = REDS[what]
    with redis_store.connect(monitor.redis_url) as client:
        if red.says:
            monitor.say(SHOP, red.slave, **red.says)
        if what == "different":
            seen = {"outcome": "different", "checked": "2026-11-23T06:00:00Z", "run": "daily", "rows": 7}
            VerificationLog(client, SHOP, red.slave).write("public.orders", seen)
        if what == "nobody applies":
            client.delete(lease.key(SHOP, red.slave))
    page = monitor.page(browser, "otto")
    page.goto(f"{monitor.url}/sluice/")
    need = page.locator(".need", has_text=f"SHOP_ → {red.slave}")
    expect(need).to_contain_text(red.text)
    need.get_by_role("link", name=red.remedy).first.click()
    for label, value in (("Why", "it is red"), ("Numbers", "all")):
        if page.get_by_label(label).count():
            page.get_by_label(label).fill(value)
    page.get_by_role("button", name=red.remedy).click()
    expect(page.get_by_role("heading", name=f"{red.remedy}: started")).to_be_visible()
    assert not axe.faults(page)
    started = page.get_by_role("main").get_by_role("link").first.inner_text()
    token = page.context.cookies()[0]["value"]
    run = page.request.get(
        f"{monitor.url}/api/v2/dags/{red.dag}/dagRuns/{started}", headers={"Authorization": f"Bearer {token}"}
    ).json()
    assert run["conf"] == {"prefix": "SHOP_", "slave": red.slave, **red.conf} and run["triggering_user_name"] == "otto"
    page.request.patch(
        f"{monitor.url}/api/v2/dags/{red.dag}/dagRuns/{started}", data={"state": "failed"},
        headers={"Authorization": f"Bearer {token}"},
    )  # fmt: skip
    page.context.close()


@pytest.mark.long
def test_an_action_needs_a_reason_and_is_in_the_audit_log(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser, "otto")
    page.goto(f"{monitor.url}/sluice/slaves/SHOP_/berlin/")
    page.get_by_role("link", name="Hold", exact=True).click()
    page.get_by_role("button", name="Hold").click()
    assert page.evaluate("document.getElementById('why').matches(':invalid')"), "the browser wants a reason"
    page.get_by_label("Why").fill('its disk is "replaced" </script>')
    page.get_by_role("button", name="Hold").click()
    expect(page.get_by_role("heading", name="Hold: started")).to_be_visible()
    assert not axe.faults_everywhere(page)
    olga = monitor.page(browser, "olga")
    token = olga.context.cookies()[0]["value"]
    events = olga.request.get(
        f"{monitor.url}/api/v2/eventLogs?order_by=-event_log_id&limit=5&event=trigger_dag_run",
        headers={"Authorization": f"Bearer {token}"},
    ).json()["event_logs"]
    assert events[0]["owner"] == "otto" and r"its disk is \"replaced\" </script>" in events[0]["extra"]
    page.context.close()
    olga.context.close()


def test_a_failing_slave_turns_red_on_an_open_page(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser, "anna")
    page.goto(f"{monitor.url}/sluice/slaves/SHOP_/berlin/")
    expect(page.get_by_role("main")).to_contain_text("Applies changes")
    monitor.say(SHOP, "berlin", state="INCONSISTENT", message="changes it needs were purged")
    expect(page.get_by_role("main")).to_contain_text(
        "The slave is INCONSISTENT: changes it needs were purged. Start an initial update.", timeout=SHOWN
    )
    page.context.close()


@pytest.mark.long
def test_filters_survive_a_refresh_of_the_page(monitor: Monitor, browser: Browser) -> None:
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
def test_a_refresh_leaves_the_reader_where_he_is(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser)
    page.goto(f"{monitor.url}/sluice/slaves/SHOP_/tokyo/")

    def refreshed() -> str:
        """What has the focus after the next refresh."""
        with page.expect_response(lambda answer: "part=live" in answer.url, timeout=SHOWN) as seen:
            pass
        seen.value.finished()
        page.wait_for_function("live.querySelector('[data-before]') === null")
        page.evaluate("live.firstElementChild.dataset.before = 1")
        where = "closest('.needs, details, .actions')"
        return str(
            page.evaluate(f"[document.activeElement.tagName, document.activeElement.{where}?.className].join(' ')")
        )

    page.evaluate("live.firstElementChild.dataset.before = 1")
    page.locator("#events").evaluate("one => { one.open = false }")
    page.locator(".needs").get_by_role("link", name="Restart apply").focus()
    assert refreshed() == "A needs critical", "of two links to one action, the same one"
    assert not page.locator("#events").evaluate("one => one.open"), "what was folded stays folded"
    page.locator("#events > summary").focus()
    assert refreshed() == "SUMMARY "
    page.context.close()


@pytest.mark.long
def test_a_hidden_page_sends_no_requests(monitor: Monitor, browser: Browser) -> None:
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("who", "offered"),
    [
        ("anna", set()),
        pytest.param("otto", {"Hold", "Verify"}, marks=pytest.mark.long),
        pytest.param("olga", {"Hold"}, marks=pytest.mark.long),
    ],
)
def test_forbidden_actions_have_no_button(monitor: Monitor, browser: Browser, who: str, offered: set[str]) -> None:
    page = monitor.page(browser, who)
    page.goto(f"{monitor.url}/sluice/slaves/SHOP_/berlin/")
    found = set(page.locator(".actions a").all_inner_texts())
    assert offered <= found and bool(found) is bool(offered)
    page.goto(f"{monitor.url}/sluice/actions/hold?prefix=SHOP_&slave=berlin")
    refused = page.get_by_role("heading", name="You may not see or do that")
    expect(refused).to_have_count(0 if offered else 1)
    page.context.close()


def test_pages_work_with_the_keyboard_alone(monitor: Monitor, browser: Browser) -> None:
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
def test_in_airflows_frame_the_page_follows_its_dark_mode(monitor: Monitor, browser: Browser) -> None:
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


LINES = """one => {
    const text = document.createRange()
    text.selectNodeContents(one)
    return new Set([...text.getClientRects()].map(line => line.top)).size
}"""
"""How many lines an element's text takes."""


def test_on_a_phone_the_list_of_events_has_the_width_of_the_page(monitor: Monitor, browser: Browser) -> None:
    page = monitor.page(browser, viewport=NARROW)
    page.goto(f"{monitor.url}/sluice/slaves/SHOP_/berlin/")
    page.evaluate("document.getElementById('events').open = true")
    row = page.locator("#events tbody tr").first
    widths = [place.evaluate("one => one.clientWidth") for place in (row.locator("td.what"), row)]
    assert widths[0] == widths[1]
    assert row.locator("td.one").evaluate(LINES) == 1, "the moment"
    page.context.close()


WITHOUT_FOLDER = """
() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replace(/[/][^ ]*[/]replications[/]/, '');
}"""
"""Takes the test's folder out of the names of files."""


@pytest.mark.long
def test_the_pictures_of_the_documentation_can_be_made(
    monitor: Monitor,
    browser: Browser,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    database: Callable[..., ConnectionInfo],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `--pictures docs/img` they replace those that are there."""
    connect_airflow(monkeypatch, "shop_berlin", database())
    monkeypatch.setattr(gathering, "FRESH_SECONDS", 0.0)
    beat()
    folder = Path(pytestconfig.option.pictures or tmp_path)
    for name, (path, size, scheme) in PICTURES.items():
        page = monitor.page(browser, viewport=size, color_scheme=scheme)
        monitor.say_everything()
        page.goto(f"{monitor.url}/sluice/{path}")
        page.evaluate(WITHOUT_FOLDER)
        page.screenshot(path=folder / f"{name}.png", full_page=True)
        page.context.close()
        assert (ROOT / "docs" / "img" / f"{name}.png").exists(), "the documentation has it"
