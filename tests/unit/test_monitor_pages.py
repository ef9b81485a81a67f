"""The pages of a slave and a master with everything on them; hostile names stay text."""

import html
import json
import os
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sluice.airflow.pages import overview_pages
from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.databases import LastAnswer, MasterData, MasterTable, SlaveData, images, waiting_images
from sluice.airflow.pages.gathering import Gathered
from sluice.airflow.pages.master_pages import shown_arguments
from sluice.airflow.pages.message import Level, Message
from sluice.airflow.pages.overview import Choice, overview
from sluice.airflow.pages.past_reports import latest
from sluice.airflow.pages.slave_row import master_messages, row
from sluice.airflow.pages.templates import environment
from sluice.apply.waiting_changes import Waiting, WaitingChange
from sluice.configuration.model import Endpoint, SlaveConfig
from sluice.configuration.options import NotifierConfig
from sluice.configuration.rule import TablePattern, TableRule, Target
from sluice.coordination.gate import ADMIN, ERROR, Closure
from sluice.coordination.live_state import LiveMaster, LiveState, Past
from sluice.coordination.redo_state import RedoStatus, ThreadStatus
from sluice.load.progress import Progress, TableLoad
from sluice.model.broadcast import Answer, Broadcast
from sluice.model.checkpoint import Checkpoint
from sluice.model.event import Event, EventKind
from sluice.model.mask import NO_PATTERNS
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.throttle_state import ThrottleState
from sluice.operate.actions import ACTIONS, DAGS, Scope, of
from tests.unit.test_monitor import NOW, known, replication, said, survey

ODD = TableName("public", '<b>&"odd"\'')
OLGA = Visitor("olga <i>", DAGS, True, "key")
ANNA = Visitor("anna", frozenset(), False, "key")


def rendered(template: str, **values: Any) -> str:
    common = {
        "root": "/sluice", "airflow": "", "part": False, "now": NOW, "poll": 3, "here": "slave",
        "rehearsed": None,
        "gathered": Gathered(survey(replication()), LiveState(), NOW), "replication": replication(),
    }  # fmt: skip
    return environment().get_template(template).render({**common, **values})


def words(text: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)))


THREADS = (
    ThreadStatus("1_1", "running", 17, 4_711, NOW.timestamp() - 3),
    ThreadStatus("1_2", "failed", 0, 0, 0.0, 4, "<no> log 9"),
)
REDO = RedoStatus("host <a>", 2, NOW.timestamp(), THREADS)


def slave_page(
    visitor: Visitor, progress: Progress | None, status: dict[str, Any], redo: RedoStatus | None = None, **more: Any
) -> str:
    found = known(status, *more.pop("closures", ()))
    told = [Event(NOW.timestamp() - ago, kind, f"{ODD} {kind}") for ago, kind in enumerate(EventKind, 1)][::-1]
    past = Past((), told, {str(ODD): NOW - timedelta(seconds=90)})
    seen = SlaveData(Checkpoint("dr1", SlaveState.TRANSITION, epoch=7), progress)
    return rendered(
        "slave.html", visitor=visitor, live=found, past=past,
        place=replication().slave("dr1"), minutes=60, visible=True, job=None, log=["<x>"],
        reports=[], spark="https://spark.example.com", actions=of(Scope.SLAVE), redo=redo,
        images=lambda reject: images(reject, NO_PATTERNS, visible=True), former=frozenset(),
        **{"one": row(replication(), "dr1", found, NOW), "takes_over": False, "looked": LastAnswer(seen, NOW), **more},
    )  # fmt: skip


def test_a_load_is_shown_with_workers_rate_what_remains_and_why_it_is_paused() -> None:
    tables = (
        TableLoad(ODD, 3, 2, 4, 400, 9_000, 50.0, estimate=1_000),
        TableLoad(TableName("public", "done"), 0, 0, 1, 7, 90, 0.0, estimate=7),
    )
    throttle = ThrottleState(paused=True, reason="the master has 9 active sessions")
    page = slave_page(OLGA, Progress(SlaveState.TRANSITION, "", tables, throttle), said(state="TRANSITION"))
    text = words(page)
    assert "1 of 2 tables" in text and "Workers 2 blocks are being read or stored" in text
    assert "Throttle paused: the master has 9 active sessions" in text
    assert re.search(r"loading 400 of about 1,000 50 12 s", text), text
    assert '<rect class="part" width="40.0"' in page and "Spark's pages" in text and "loads 1 table" in text
    assert str(ODD) in text and "<b>" not in page and "<i>" not in page and "<x>" not in page


def test_what_waits_is_shown_with_values_only_to_who_may_see_them_and_cleared_by_who_may() -> None:
    changes = (
        WaitingChange(7, 42, ODD, "UPDATE", {"id": "1", "<v>": "secret"}, {"id": "1", "<v>": "<hidden>"}),
        WaitingChange(8, 42, ODD, "TRUNCATE", {}, {}),
    )
    for visitor in (OLGA, ANNA):
        page = rendered(
            "waiting.html", visitor=visitor, slave="dr1", waiting=Waiting(1_000_000, True, 5_000_000, changes),
            trouble="", visible=visitor is OLGA, most=7,
            images=lambda change, visible=visitor is OLGA: waiting_images(change, NO_PATTERNS, visible=visible),
        )  # fmt: skip
        text = words(page)
        assert "more than 1,000,000 changes" in text and "At most 7 of them are applied in one transaction" in text
        assert f"7 {ODD} UPDATE transaction 42" in text and "It changes no single row" in text
        assert ("secret" in text and "<hidden>" in text) is (visitor is OLGA)
        assert ("/sluice/actions/clear?" in page) is (visitor is OLGA)
        assert ("Values are hidden" in text) is (visitor is ANNA)
        assert "<b>&" not in page and "<v>" not in page
    nothing = rendered(
        "waiting.html", visitor=ANNA, slave="dr1", waiting=Waiting(0, False, 0, ()), trouble="", visible=True, most=7
    )
    assert "Nothing waits: dr1 has all that its master has committed." in words(nothing) and "At most" not in nothing
    assert "The master does not answer" in words(
        rendered("waiting.html", visitor=ANNA, slave="dr1", waiting=None, trouble="The master does not answer", most=7)
    )


def test_names_that_tables_have_on_the_slave_stay_text() -> None:
    target = TableRule(TablePattern(ODD.schema, ODD.name), target=Target("archive", "<i>select"))
    placed = replace(replication(), tables=(target,))
    page = slave_page(OLGA, None, said(), one=row(placed, "dr1", known(said()), NOW))
    assert f'Names of tables there {ODD} is archive."<i>select"' in words(page)
    assert "<i>" not in page and "<b>" not in page
    assert "Names of tables there" not in words(slave_page(OLGA, None, said()))


def test_events_are_listed_latest_first_and_definitions_separately() -> None:
    status = said(memory=212_000_000, pid=4711, host="apply1", set_aside=[str(ODD)])
    page = slave_page(OLGA, None, status)
    text = words(page)
    kinds = re.findall(r'data-label="About">(\w+)<', page)
    assert kinds == ["definition", *EventKind], "definitions by themselves, then everything"
    assert "process 4711 on apply1, 212.0 MB of memory" in text and "started 1 time in the last day" in text
    assert "2026-11-22" in text and page.count("<script") == 1
    assert "Conflicts stop the slave" in text


def test_each_button_of_a_slave_is_there_for_who_may_press_it_alone() -> None:
    for visitor in (OLGA, ANNA):
        page = slave_page(visitor, None, said())
        found = set(re.findall(r"/sluice/actions/(\w+)\?", page))
        assert found <= ACTIONS.keys() and bool(found) is (visitor is OLGA)
    assert {"initiate", "hold", "restart", "verify", "repair", "reload"} <= set(
        re.findall(r"/sluice/actions/(\w+)\?", slave_page(OLGA, None, said()))
    )


def test_a_page_shows_a_reason_once_with_helpful_actions() -> None:
    why = "Initial Update failed in create_tables: the statement was: CREATE <DOMAIN>"
    checkpoint = Checkpoint("dr1", SlaveState.INCONSISTENT, epoch=7, message=why)
    page = slave_page(
        OLGA, None, said(state="INCONSISTENT", message=why), looked=LastAnswer(SlaveData(checkpoint), NOW)
    )
    assert words(page).count(why) == 1
    assert set(re.findall(r"/sluice/actions/(\w+)\?", page)) == {"initiate"}
    held = Closure(ADMIN, "anna", "its disk is replaced", "2026-11-22T12:00:00+00:00")
    page = slave_page(OLGA, None, said(), closures=(held,))
    assert words(page).count(
        "its disk is replaced"
    ) == 1 and "Gate closed: admin (anna, 2026-11-22 12:00:00 UTC) Checkpoint" in words(page)
    assert {"open", "remove_first", "hold"} <= set(re.findall(r"/sluice/actions/(\w+)\?", page))
    page = slave_page(OLGA, None, said(), closures=(replace(held, name=ERROR),))
    assert "/sluice/actions/open?" not in page, "a restart opens what an error has closed"


def test_a_failover_is_offered_where_there_is_one() -> None:
    postgres, stream = replication(), replace(replication(), master=Endpoint(capture="stream", location="/recorded"))
    mysql = replace(postgres, slaves={"dr1": SlaveConfig("dr1", "dr1", vendor="mysql")})
    assert [one.fails_over(one.slaves["dr1"]) for one in (postgres, mysql, stream)] == [True, False, False]
    for takes_over, state, offered in ((True, "NORMAL", True), (True, "INCONSISTENT", False), (False, "NORMAL", False)):
        page = slave_page(OLGA, None, said(state=state), takes_over=takes_over)
        assert ("/sluice/actions/failover?" in page) is offered


def test_a_master_shows_its_redo_threads_and_mends_tables_that_are_not_captured() -> None:
    found = LiveMaster(redo=replace(REDO, unread="The master has redo of thread <3>"))
    tables = MasterTable(ODD, "its trigger is <gone>", None), MasterTable(TableName("p", "t"), "", 7)
    seen = MasterData(3, True, tables)
    page = rendered(
        "master.html", visitor=OLGA, live=found, looked=LastAnswer(seen, NOW), rows=[], source="oracle, x",
        messages=master_messages(replication(), found, NOW), queue_level=Level.OK, actions=of(Scope.MASTER),
        notifiers=[],
    )  # fmt: skip
    text = words(page)
    assert "1_1 running 17 4711 3.0 s 0" in text and "1_2 failed <no> log 9 – – – 4" in text
    assert "Redo thread 1_2 has failed: <no> log 9" in text and "The master has redo of thread <3>" in text
    assert "its trigger is <gone> Fix" in text and "as configured" in text and "Uninstall" in text
    assert not {"<no>", "<gone>", "<a>"} & set(re.findall(r"<\w+>", page))
    quiet = replace(found, redo=None)
    assert "Redo threads" not in rendered(
        "master.html", visitor=ANNA, live=quiet, looked=LastAnswer(None, None, "down"), rows=[], source="x",
        messages=[], queue_level=Level.OK, actions=of(Scope.MASTER), notifiers=[],
    )  # fmt: skip


def test_master_and_slave_show_the_binary_log_that_is_recorded() -> None:
    reads = ThreadStatus("master-bin.000012", "running", 0, 345, NOW.timestamp() - 2)
    binary = RedoStatus("host <a>", 2, NOW.timestamp(), (reads,), capture="binlog")
    page = rendered(
        "master.html", visitor=OLGA, live=LiveMaster(redo=binary), looked=LastAnswer(None, None, "down"), rows=[],
        source="x", messages=[], queue_level=Level.OK, actions=of(Scope.MASTER), notifiers=[],
    )  # fmt: skip
    assert "File State Log Offset Behind Restarts master-bin.000012 running – 345 2.0 s 0" in words(page)
    assert "Log master-bin.000012 running, 2.0 s behind ; read by host <a>" in words(
        slave_page(OLGA, None, said(), binary)
    )


def test_a_slave_shows_the_redo_threads_of_its_master() -> None:
    page = slave_page(OLGA, None, said(), REDO)
    assert "thread 1_1 running, 3.0 s behind ; thread 1_2 failed ; read by host <a>" in words(page)
    assert 'href="/sluice/masters/DEMO_/#redo"' in page and "<a>" not in page
    assert "Redo" not in words(slave_page(OLGA, None, said()))


def test_the_overview_says_without_a_click_as_of_when_until_when_and_why() -> None:
    closures = [
        Closure(name, "otto", why, NOW.isoformat()) for name, why in (("admin", "disk <is> full"), ("job", "no space"))
    ]
    until = "on after the start, for 12 s more and until everything up to 13:00 is applied"
    status = said(safe_mode=until, not_ready={"p.a": "absent"}, loading=["p.b", "p.c"])
    known_slave = known(status, *closures)
    gathered = LiveState({}, {(replication().prefix, "dr1"): known_slave})
    page = rendered(
        "overview.html", visitor=ANNA, page=overview(Gathered(survey(replication()), gathered, NOW), Choice(), NOW),
        link=lambda **_: "?", attention_shown=8,
    )  # fmt: skip
    text = words(page)
    assert f"safe mode {until}" in text and "gate closed" in text and "1 not ready 2 loading" in text
    assert re.search(r"as of \d\d:\d\d:\d\d UTC", text), text
    assert re.search("Held: .*disk <is> full.*; job .*no space", text) and "<is>" not in page


def test_answers_to_a_query_are_equal_different_failed_or_waiting_and_hidden_from_who_may_only_read() -> None:
    master, other = (Answer.of(("a",), [(value, None)], 10) for value in ("<7>", "8"))
    slaves = {"same": master, "other": other, "late": None, "broken": Answer(error="no such table secret")}
    asked = Broadcast(4, "SELECT <secret> FROM t", "olga", NOW.isoformat(), master, slaves)

    def page(visible: bool) -> str:
        return rendered(
            "queries.html", visitor=OLGA if visible else ANNA, looked=LastAnswer([asked], NOW), visible=visible
        )

    text = words(page(True))
    assert "same equal 1 a <7> | NULL" in text and "other different 1 a 8 | NULL" in text
    assert "late waiting –" in text and "broken failed – no such table secret" in text
    assert "<secret>" in text and "<secret>" not in page(True)
    shown = words(page(False))
    assert "secret" not in shown and "<7>" not in shown and "same equal 1" in shown


def test_reports_are_listed_newest_first_those_of_a_pair_and_as_they_were_written_last(tmp_path: Path) -> None:
    def write(name: str, outcome: str, at: int, *slaves: str) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        told = [{"prefix": "DEMO_", "slave": slave, "outcome": outcome, "started": "x"} for slave in slaves]
        (tmp_path / name / "report.json").write_text(json.dumps(told))
        os.utime(tmp_path / name / "report.json", (at, at))

    write("old", "identical", 1, "dr1", "dr2")
    write("new", "different", 3, "dr1")
    write("other", "identical", 2, "dr2")
    (tmp_path / "begun").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "report.json").write_text("[{}]")
    assert [one.name for one in latest(tmp_path)] == ["new", "other", "old"]
    assert [one.name for one in latest(tmp_path, most=1)] == ["new"]
    mine = latest(tmp_path, "DEMO_ → dr1")
    assert [(one.name, *one.pairs) for one in mine] == [
        ("new", ("DEMO_ → dr1", "different", "x")), ("old", ("DEMO_ → dr1", "identical", "x")),
    ]  # fmt: skip
    write("new", "identical", 4, "dr1")
    assert latest(tmp_path, "DEMO_ → dr1", 1)[0].pairs[0][1] == "identical"


def test_who_feeds_whom_is_drawn_with_cascades_and_circles() -> None:
    first = replication("A_", "dr1", "dr2")
    second = replace(replication("B_", "far"), master=Endpoint("dr1"))
    turns = (("X_", "y", "x"), ("Y_", "x", "y"))
    circle = [replace(replication(prefix, to), master=Endpoint(of_it)) for prefix, to, of_it in turns]
    behind = LiveState(slaves={(second.prefix, "far"): known(said(75.0))})
    found = overview_pages.roots(Gathered(survey(first, second, *circle), behind, NOW), NOW)
    assert [one.prefix for one in found] == ["A_", "X_"], "B_ is below the slave that is its master"
    (below,) = found[0].slaves[0].feeds
    assert (below.prefix, [one.row.slave for one in below.slaves]) == ("B_", ["far"]) and not found[0].slaves[1].feeds
    (turned,) = found[1].slaves[0].feeds
    assert turned.slaves[0].feeds[0].again, "it ends"
    text = words(rendered("topology.html", roots=found, visitor=ANNA))
    assert "A_ from postgres, m" in text and "75 s behind , to far" in text and "a circle: see above" in text
    assert "lag not known, no apply runs , to dr2" in text


def test_a_newcomer_finds_what_the_words_of_a_page_mean() -> None:
    page = slave_page(ANNA, None, said())
    assert 'id="words"' in page and "INCONSISTENT Its rows are not those of its master." in words(page)
    assert page.index('id="words"') > page.index('id="live"')
    assert 'id="words"' not in slave_page(ANNA, None, said(), part=True), "a refresh would fold it"


def test_an_arrow_is_green_only_where_changes_arrive() -> None:
    one = replication("A_", "runs", "ended", "unknown")
    live = {"runs": known(said(2.0)), "ended": known(said(2.0), runs=False)}
    slaves = LiveState(slaves={(one.prefix, name): found for name, found in live.items()})
    page = rendered("topology.html", roots=overview_pages.roots(Gathered(survey(one), slaves, NOW), NOW), visitor=ANNA)
    assert re.findall(r'class="arrow (\w+)"', page) == ["fine", "none", "none"]


def test_null_is_not_shown_as_an_empty_text_nor_as_a_column_that_is_not_there() -> None:
    change = WaitingChange(7, 42, ODD, "UPDATE", {"a": None, "b": ""}, {"a": "NULL", "c": "x"})
    shown = {one.column: (one.before, one.after) for one in waiting_images(change, NO_PATTERNS, visible=True)}
    assert shown == {"a": ((None,), ("NULL",)), "b": (("",), ()), "c": ((), ("x",))}
    page = rendered(
        "waiting.html", visitor=OLGA, slave="dr1", waiting=Waiting(1, False, 5, (change,)), trouble="", visible=True,
        most=7, images=lambda change: waiting_images(change, NO_PATTERNS, visible=True),
    )  # fmt: skip
    row = r'<td class="v"><span class="soft">NULL</span></td>\s*<td class="v">NULL</td>'
    assert re.search(row, page) and '<span class="soft">empty</span>' in page


def test_the_evidence_of_a_question_is_shown_without_what_it_must_not_do() -> None:
    body = (
        "**Approve**: `a<b>` *is* done.\n\n1. Copy ``x`y`` there\n2. [log](https://h/x?a=1&b=<i>)\n\n"
        "[bad](javascript:alert(1)) <script>x</script>\n\n- one"
    )
    one = row(replication(), "dr1", known(said()), NOW)
    asks = Message("waits", Level.WARNING, "approve", dag="resync", run="r 1", question="q", details=body)
    text = slave_page(OLGA, None, said(), one=replace(one, messages=(asks,)))
    shown = text[text.index('class="evidence"') :]
    assert "<b>Approve</b>: <code>a&lt;b&gt;</code> *is* done." in shown
    assert "<li>Copy <code>x`y</code> there</li>" in shown
    assert '<a href="https://h/x?a=1&amp;b=&lt;i&gt;"' in shown and "<li>one</li>" in shown
    assert "<script>x" not in text and 'href="javascript' not in text and "[bad](javascript:alert(1))" in words(text)
    assert "question=q" in text and "/dags/resync/runs/r%201/" in text


def test_where_notices_go_is_shown_without_secrets() -> None:
    arguments = {
        "to": ["dba@example.com", "b@c"], "api_token": "t0ken", "hook": "https://u:t0ken@hooks.example.com/t0ken",
        "headers": {"Authorization": "t0ken"}, "channel": "<databases>",
    }  # fmt: skip
    text = shown_arguments(NotifierConfig("a.b.Pager", arguments))
    assert "to: dba@example.com, b@c" in text and "hook: https://hooks.example.com/" in text and "t0ken" not in text
    page = rendered(
        "master.html", visitor=OLGA, live=LiveMaster(), looked=LastAnswer(None, None), rows=[], source="",
        messages=[],
        queue_level=Level.OK, actions=of(Scope.MASTER), notifiers=[("a.b.Pager", text)],
    )  # fmt: skip
    assert "Purge –" in words(page), "nobody was asked"
    assert "Pager" in page and "<databases>" not in page and "/sluice/actions/send_test?prefix=DEMO_" in page
