"""Pages of a slave and a master that show everything at once: a load, rejects, redo threads, tables not captured.

What the databases answer is made up, since real ones are not in such a state for as long as a browser needs.
"""

import time
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, expect

from sluice.airflow.pages import databases
from sluice.airflow.pages.databases import MasterData, MasterTable, SlaveData
from sluice.coordination import redis_store
from sluice.coordination.records import Issues
from sluice.coordination.redo_state import RedoState, RedoStatus, ThreadStatus
from sluice.load.progress import Progress, TableLoad
from sluice.model.checkpoint import Checkpoint
from sluice.model.content import format_row
from sluice.model.failover import Action, Switch
from sluice.model.names import TableName
from sluice.model.purging import Backlog
from sluice.model.reject import Reject, RejectStatus
from sluice.model.slave_state import SlaveState
from sluice.model.throttle_state import ThrottleState
from tests.browser import axe
from tests.browser.rig import SHOP, Monitor

pytestmark = pytest.mark.long
LONGEST = TableName("s" * 63, 'T<b>"&' + "t" * 57)
TABLES = (
    TableLoad(LONGEST, 3, 2, 4, 400_000, 9_000_000, 51_234.0, estimate=1_000_000_000),
    TableLoad(TableName("public", "waits"), 3, 0, 0, 0, 0, 0.0),
    TableLoad(TableName("public", "stored"), 0, 0, 1, 7, 90, 0.0, estimate=7),
)
WHY = "inconsistent: " + "the load was canceled " * 20
SWITCHES = (
    Switch(
        "manual 1", Action.FORCED, "oslo", "s@" + "h" * 200 + ":1/<b>", "s@db1:1/shop", "2026-01-02T03:04:05Z", "anna"
    ),
    Switch(
        "2",
        Action.PLANNED,
        "berlin",
        "s@db1:1/shop",
        "s@<b>:1/d",
        "2026-01-03T03:04:05Z",
        "<b>",
        "2026-01-03T03:04:04Z",
    ),
)
OLD = [("id", "7"), ("note", '<i>"x" & y</i> ' + "long" * 100), ("secret_token", "abc"), ("none", None), ("empty", "")]


def reject(number: int) -> Reject:
    new = format_row([*OLD[:1], ("note", "b\nc"), *OLD[2:]])
    return Reject(
        number, 70 + number, LONGEST, "UPDATE", new, format_row(OLD), format_row(OLD[:1]), "another row " * 20,
        datetime.now(UTC), ("id",), ("7",), None, RejectStatus.SET_ASIDE, False, None, None, None, None, "refused",
    )  # fmt: skip


@pytest.fixture
def filled(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> Monitor:
    progress = Progress(SlaveState.TRANSITION, "", TABLES, ThrottleState(paused=True, reason="9 active sessions"))
    seen = SlaveData(
        Checkpoint("berlin", SlaveState.TRANSITION, epoch=7), progress, [reject(number) for number in (1, 2)], 2,
        SWITCHES, "the master until 2026-01-02 03:04:05 UTC",
    )  # fmt: skip
    tables = [MasterTable(LONGEST, "its trigger is <gone>", 7), MasterTable(TableName("public", "t"), "", 10**12)]
    backlog = Backlog(10**9, 10**12, ("berlin", "oslo"), datetime.now(UTC))
    monkeypatch.setattr(databases, "_slave", lambda replication, name: seen)
    monkeypatch.setattr(databases, "_master", lambda replication: MasterData(3, False, tables, backlog, SWITCHES))
    threads = [
        ThreadStatus("1_1", "running", 17, 4_711_000_000_000, 1.0, logs_behind=1_234),
        ThreadStatus("1_2", "failed", 0, 0, 0.0, 4, "a <b> word " * 40, logs="Restore log 9 of thread 2."),
    ]
    with redis_store.connect(monitor.redis_url) as client:
        RedoState(client, SHOP).write(RedoStatus("a_host_" * 12, 3, time.time(), tuple(threads), "no redo <logs>"))
        Issues(client, SHOP).write([(str(LONGEST), "its trigger is <gone>")], datetime.now(UTC).isoformat())
    monitor.say(SHOP, "berlin", state="TRANSITION", set_aside=[str(LONGEST)], not_ready={str(LONGEST): WHY})
    return monitor


@pytest.mark.parametrize("who", ["anna", "otto", "olga"])
def test_a_page_with_everything_on_it_can_be_read_in_light_and_dark_wide_and_narrow(
    filled: Monitor, browser: Browser, who: str
) -> None:
    page = filled.page(browser, who)
    for address in ("slaves/SHOP_/berlin/", "masters/SHOP_/"):
        faults = axe.faults_everywhere(page, f"{filled.url}/sluice/{address}", open_all=True)
        assert not faults, "\n".join(faults)
    page.goto(f"{filled.url}/sluice/slaves/SHOP_/berlin/")
    main = page.get_by_role("main")
    for said in (
        "paused: 9 active sessions",
        "of about 1,000,000,000",
        "2 changes set aside",
        "thread 1_2 failed",
        "In place of",
        "h" * 200 + ":1/<b>, until then the slave oslo",
        "the master until 2026-01-02 03:04:05 UTC",
    ):
        expect(main).to_contain_text(said)
    page.locator("#r1 > summary").click()
    expect(main).to_contain_text("•••" if who == "anna" else '<i>"x" & y</i>')
    assert ("abc" in main.inner_text()) is False, "what sounds like a secret is hidden from everybody"
    page.context.close()
