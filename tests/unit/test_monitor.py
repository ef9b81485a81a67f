"""The monitor's messages about slaves and masters, and its selection of them."""

import re
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.gathering import Gathered
from sluice.airflow.pages.message import Level, Message
from sluice.airflow.pages.overview import Choice, overview
from sluice.airflow.pages.run_messages import Beside
from sluice.airflow.pages.slave_row import SlaveRow, master_messages, row
from sluice.airflow.pages.templates import environment, lag_curve, rate_curve
from sluice.config import Survey
from sluice.configuration.mistakes import Mistake
from sluice.configuration.model import Endpoint, Replication, SlaveConfig
from sluice.configuration.rule import TablePattern, TableRule
from sluice.coordination.gate import ADMIN, APPROVAL, CARRIED, ERROR, INITIAL_UPDATE, Closure
from sluice.coordination.lease import Holder
from sluice.coordination.live_state import LiveMaster, LiveSlave, LiveState
from sluice.coordination.records import DefinitionGap, MeasuredQueue
from sluice.coordination.redo_state import RedoStatus, ThreadStatus
from sluice.database.conflicts import SlaveTableMissing
from sluice.errors import labeled
from sluice.model.checkpoint import Checkpoint
from sluice.model.conflict_rule import ConflictRule
from sluice.model.joining import StartedLoad
from sluice.model.names import Prefix, TableName
from sluice.model.sample import AppliedWindow, Sample, Sampler
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState, TableStates
from sluice.operate.actions import DAGS
from sluice.operate.open_runs import Airflow, Run
from sluice.verify.definition_gaps import not_captured

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
ALL = Choice()
ANNA = Visitor("anna", frozenset(DAGS), True, "key")


def replication(prefix: str = "DEMO_", *slaves: str) -> Replication:
    names = slaves or ("dr1",)
    return Replication(Prefix(prefix), Endpoint("m"), {name: SlaveConfig(name, name) for name in names}, ())


def said(seconds: float = 1.0, **more: Any) -> dict[str, Any]:
    """The status of an apply that is so many seconds behind."""
    as_of = (NOW - timedelta(seconds=seconds)).isoformat()
    return {"state": "NORMAL", "activity": "applying", "current_as_of": as_of, "at": NOW.isoformat(), **more}


def known(status: dict[str, Any], *closures: Closure, runs: bool = True, **more: Any) -> LiveSlave:
    return LiveSlave(status, Holder("host", 4711, "t") if runs else None, closures, **more)


def shown(status: dict[str, Any], *closures: Closure, runs: bool = True, **more: Any) -> SlaveRow:
    return row(replication(), "dr1", known(status, *closures, runs=runs, **more), NOW)


def texts(one: SlaveRow) -> list[tuple[str, Level]]:
    return [(message.text, message.level) for message in one.messages]


def test_a_slave_that_follows_needs_nobody() -> None:
    one = shown(said(0.4, rate=120.0))
    assert (one.state, one.level, one.messages) == (SlaveState.NORMAL, Level.OK, ())
    assert one.lag == pytest.approx(0.4) and one.rate == 120 and one.sentence == "Applies changes"
    assert shown(said(0.4)).sentence == "Follows its master"


ISOLATED = TableRule(TablePattern.parse("public.odd"), on_error="isolate")
STOPPED = TableRule(TablePattern.parse("public.c*"), on_error="stop")
BY_RULE = ((TablePattern.parse("shop.*"), ConflictRule(newest="at")),)


@pytest.mark.parametrize(
    ("slave", "said"),
    [
        (SlaveConfig("dr1"), "stop the slave; of public.odd: leave out the table alone"),
        (SlaveConfig("dr1", on_error="isolate"), "leave out the table alone; of public.c*: stop the slave"),
        (SlaveConfig("dr1", on_conflict="reject"), "are set aside in REJECTS"),
        (SlaveConfig("dr1", on_conflict="overwrite", on_error="isolate"), "are overwritten"),
        (SlaveConfig("dr1", safe_mode=True), "none, the slave is always in safe mode"),
        (
            SlaveConfig("dr1", on_conflict="reject", conflict_rules=BY_RULE),
            "are set aside in REJECTS; of shop.*: decided by newest: at",
        ),
    ],
)
def test_the_conflict_policy_is_shown_for_the_slave_and_for_differing_tables(slave: SlaveConfig, said: str) -> None:
    replicated = Replication(Prefix("DEMO_"), Endpoint("m"), {"dr1": slave}, (ISOLATED, STOPPED))
    assert row(replicated, "dr1", known({}), NOW).conflicts == said


def test_a_slave_without_a_status_has_no_values() -> None:
    one = row(replication(), "dr1", known({}, runs=False), NOW, Beside(answered=NOW))
    assert (one.state, one.lag, one.as_of, one.safe_mode) == (SlaveState.UNCONFIGURED, None, None, "")
    assert texts(one) == [("No initial update has begun yet. Start one.", Level.OK)]
    assert one.messages[0].remedy == "initiate"


def test_what_a_slave_is_its_checkpoint_says_when_redis_does_not() -> None:
    """Redis lost its keys, is full, or silent; its database answers, has answered, or never did."""
    full = "Redis is full, and takes nothing: OOM."
    normal = Checkpoint(
        "dr1", SlaveState.NORMAL, tables=TableStates({TableName("public", "t"): TableState.INCONSISTENT})
    )
    for store in ("", full):
        for checkpoint in (normal, replace(normal, state=SlaveState.TRANSITION)):
            for unanswered in ("", "the slave does not answer"):
                beside = Beside(checkpoint=checkpoint, answered=NOW, unanswered=unanswered, store=store)
                one = row(replication(), "dr1", known({}, runs=False), NOW, beside)
                said = " ".join(text for text, _ in texts(one))
                assert one.state is checkpoint.state and "No initial update" not in said and one.not_ready
                assert ("2026-11-22 12:00:00 UTC is shown" in said) is bool(unanswered)
                transition = checkpoint.state is SlaveState.TRANSITION
                assert ("start it" in said) is (not store) and (store in said), said
                assert not transition or "no run of initial_update" not in said, "Airflow was not asked"
                assert one.offers("initiate") is (not store)
        never = Beside(unanswered="The slave does not answer", store=store)
        one = row(replication(), "dr1", known({}, runs=False), NOW, never)
        assert one.state is None and one.word == "UNKNOWN" and not one.offers("initiate") and not one.offers("restart")
        assert (
            texts(one)[0][0]
            == "The state of the slave is not known: neither Redis nor its database tells it. The slave does not answer"
        )
    stale = row(replication(), "dr1", known(said_of("NORMAL"), runs=False), NOW, Beside(answered=NOW))
    assert stale.state is SlaveState.UNCONFIGURED, "what Redis has of a slave that was removed counts no more"


def test_what_the_last_apply_said_of_itself_does_not_outlive_it() -> None:
    """After a failover: the apply ended while the master refused writes, and the slave is the master."""
    before = said(state="SWITCHING", message="The master refuses writes since", not_ready={"s.t": "absent"})
    checkpoint = Checkpoint("dr1", SlaveState.MASTER, message="Master since planned failover f1")
    one = row(replication(), "dr1", known(before, runs=False), NOW, Beside(checkpoint=checkpoint, answered=NOW))
    assert (one.state, one.sentence, one.not_ready) == (SlaveState.MASTER, "Master since planned failover f1", {})
    assert not one.offers("initiate"), "it would empty the master"


def said_of(state: str) -> dict[str, Any]:
    return {**said(), "state": state}


@pytest.mark.parametrize(
    ("seconds", "level"), [(59, Level.OK), (60, Level.WARNING), (599, Level.WARNING), (600, Level.CRITICAL)]
)
def test_the_thresholds_of_the_configuration_colour_the_lag(seconds: float, level: Level) -> None:
    assert shown(said(seconds)).lag_level is level
    assert shown(said(seconds, state="TRANSITION")).lag_level is Level.OK, "a load takes as long as it takes"
    of_its_own = replace(replication(), monitor=replace(replication().monitor, lag_warning=1.0, lag_critical=2.0))
    assert row(of_its_own, "dr1", known(said(seconds)), NOW).lag_level is Level.CRITICAL


def test_an_apply_that_stopped_says_why_and_what_to_press() -> None:
    stopped = Closure(ERROR, "apply", "public.t: a row is not there.", "2026-11-22T12:00:00")
    one = shown(said(), stopped, runs=False)
    ((text, level),) = texts(one)
    assert level is Level.CRITICAL and text.startswith("The apply has stopped: public.t: a row is not there. Fix that")
    assert one.messages[0].remedy == "restart" and one.sentence == "Stopped: public.t: a row is not there."


def test_a_person_who_holds_a_slave_is_named_with_the_reason() -> None:
    one = shown(said(), Closure(ADMIN, "anna", "disk", "2026-11-22T12:00:00+00:00"))
    assert texts(one) == [("The gate was closed at 12:00:00 UTC: disk (anna)", Level.WARNING)]
    assert one.messages[0].remedy == "open"


def test_a_closure_of_another_day_is_shown_with_its_date() -> None:
    one = shown(said(), Closure(ADMIN, "anna", "disk", "2026-11-20T12:00:00+00:00"))
    assert texts(one) == [("The gate was closed at 2026-11-20 12:00:00 UTC: disk (anna)", Level.WARNING)]


def test_a_transaction_is_not_offered_to_be_removed_while_a_load_holds_the_slave() -> None:
    for name, offered in ((INITIAL_UPDATE, False), (ADMIN, True), (ERROR, True)):
        one = shown(said(), Closure(name, "x", "y", "2026-11-22T12:00:00+00:00"))
        assert one.offers("remove_first") is offered, name


def test_a_failover_that_nobody_continues_is_told_and_what_takes_it_back() -> None:
    checkpoint = Checkpoint("dr1", SlaveState.SWITCHING)
    runs = {"lost": (), "running": (Run("failover", "f1", "DEMO_", ("dr1",), "running", action="planned"),)}
    for what, found in runs.items():
        beside = Beside(found, Airflow(found, scheduler=NOW, asked=True), checkpoint, NOW)
        one = row(replication(), "dr1", known(said(state="SWITCHING")), NOW, beside)
        told = [message.remedy for message in one.messages if message.level is Level.CRITICAL]
        assert told == (["failover"] if what == "lost" else []), what
        assert one.sentence == "A failover is making it the master"


def test_while_redis_is_away_nothing_that_needs_it_is_offered() -> None:
    """What Redis said last of a slave may be long over, and no apply can start."""
    stopped = Closure(ERROR, "apply", "a row is not there.", "2026-11-22T12:00:00+00:00")
    for live in (
        known(said(), stopped, runs=False),
        known(said(state="INCONSISTENT")),
        known(said(not_ready={"s.t": "absent"})),
    ):
        assert {one.remedy for one in row(replication(), "dr1", live, NOW).messages} & {"restart", "initiate", "reload"}
        one = row(replication(), "dr1", live, NOW, Beside(store="Redis does not answer"))
        assert not {message.remedy for message in one.messages} & {"restart", "initiate", "reload"}
        assert not any(map(one.offers, ("restart", "initiate", "reload")))


def test_an_update_that_waits_for_an_answer_says_so_and_what_to_press() -> None:
    held = Closure(INITIAL_UPDATE, APPROVAL, "WAITING (stored on '/a')", "2026-11-22T12:00:00+00:00")
    one = shown(said(state="TRANSITION"), held, runs=False)
    assert texts(one) == [("The initial update waits for a person's answer: WAITING (stored on '/a')", Level.WARNING)]
    assert one.messages[0].remedy == "approve"


def test_an_update_that_waits_for_files_on_their_way_says_how_many_are_there() -> None:
    reason = "WAITING (stored on '/a'). 41 of 42 files are at /b."
    held = Closure(INITIAL_UPDATE, CARRIED, reason, "2026-11-22T12:00:00+00:00")
    one = shown(said(state="TRANSITION"), held, runs=False)
    assert texts(one) == [(f"The initial update waits for its files: {reason}", Level.WARNING)]
    assert one.messages[0].remedy == ""


def test_no_apply_is_red_only_where_one_should_run() -> None:
    assert shown(said(), runs=False).level is Level.CRITICAL
    assert shown(said(state="INCONSISTENT", message="canceled"), runs=False).messages[0].remedy == "initiate"
    held = Closure(INITIAL_UPDATE, "initial update", "written to files", "2026-11-22T12:00:00+00:00")
    assert shown(said(state="TRANSITION"), held, runs=False).level is Level.OK


def test_a_slave_that_is_being_loaded_is_not_called_normal() -> None:
    held = Closure(INITIAL_UPDATE, "initial update", "written to files", "2026-11-22T12:00:00+00:00")
    assert shown(said(), held).state is SlaveState.INITIAL


def test_an_apply_that_holds_its_lease_and_is_silent_is_noticed() -> None:
    one = shown(said(1, at=(NOW - timedelta(seconds=45)).isoformat(), rate=5))
    assert any("has said nothing for 45 s" in text for text, _ in texts(one))
    assert (one.messages[0].remedy, one.connection) == ("restart", "stalled")
    assert one.sentence == "Its apply has said nothing for 45 s"
    assert one.rate == 0, "a rate of 45 s ago is none"


def test_an_apply_that_stopped_for_want_of_a_table_is_helped_by_its_load() -> None:
    reason = labeled(SlaveTableMissing(TableName("public", "t")))
    one = shown(said(1), Closure(ERROR, "apply", reason, NOW.isoformat()), runs=False)
    assert [(message.remedy, message.table) for message in one.messages] == [("reload", "public.t")]


def test_a_table_that_could_not_be_compared_is_shown_with_the_reason() -> None:
    seen = {"outcome": "could not compare", "reason": "permission denied for table t."}
    one = shown(said(1), tables={"public.t": seen})
    assert texts(one) == [
        (
            "Could not be compared with the master the last time: public.t (permission denied for table t).",
            Level.WARNING,
        )
    ]


def test_an_update_is_canceled_only_while_one_runs() -> None:
    loading = known(said(1, state="TRANSITION"))
    for airflow, runs, offered in (
        (Airflow(asked=True), [], False),
        (Airflow(asked=True), [Run("initial_update", "r", "DEMO_", ("dr1",), "running")], True),
        (Airflow(asked=True, trouble="It does not answer."), [], True),
    ):
        one = row(replication(), "dr1", loading, NOW, Beside(runs, airflow))
        assert one.offers("cancel") is offered


def test_a_silent_apply_whose_slave_does_not_answer_needs_no_restart() -> None:
    """The slave's server is frozen: the apply holds its lease, waits for a statement, and writes no status."""
    late = known(said(1, at=(NOW - timedelta(seconds=45)).isoformat()))
    beside = Beside(answered=NOW, unanswered="connection timeout expired.")
    one = row(replication(), "dr1", late, NOW, beside)
    ((text, level),) = [each for each in texts(one) if "said nothing" in each[0]]
    assert "does not answer. connection timeout expired. It continues" in text and level is Level.CRITICAL
    assert "restart" not in [message.remedy for message in one.messages]


def test_lacks_of_the_slave_are_shown_with_the_remedy() -> None:
    issue = DefinitionGap("index i on public.t: the master has it", "CREATE INDEX i ON t (a)", "")
    status = said(
        not_ready={'public."<b>"': "absent"}, set_aside=["public.a"], differing=["public.p differs"],
        configuration="DEMO.yaml:3: x: is not known",
    )  # fmt: skip
    one = shown(status, issues=[issue])
    everything = "\n".join(text for text, _ in texts(one))
    for part in (
        "1 table not loaded, changes left out. Start the DAG initial_update with prefix DEMO_, slave dr1",
        "Changes of public.a are set aside in REJECTS",
        "public.p differs",
        "run there: CREATE INDEX i ON t (a);",
        "because of a mistake in the file: DEMO.yaml:3: x: is not known",
    ):
        assert part in everything
    load = next(message for message in one.messages if "not loaded" in message.text)
    assert (load.remedy, load.table) == ("reload", 'public."<b>"')
    levels = [message.level for message in one.messages]
    assert levels == sorted(levels, reverse=True), "worst first"
    started = StartedLoad("new_tables_1", (TableName("public", "<b>"),))
    (load,) = [message for message in shown(status, started=started).messages if "not loaded" in message.text]
    assert (load.remedy, load.level) == ("", Level.WARNING) and "The run new_tables_1 of initial_update" in load.text


def test_it_is_verified_through_when_the_oldest_table_is() -> None:
    new, old = {"time": "2026-11-22T11:00:00Z", "outcome": "identical"}, {"time": "2026-11-20T11:00:00Z"}
    assert shown(said(), tables={"a": new, "b": old}).verified == datetime(2026, 11, 20, 11, tzinfo=UTC)
    assert shown(said(), tables={"a": new, "b": {}}).verified is None
    different = {"outcome": "different", **old}
    assert shown(said(), tables={"a": different}).messages[0].remedy == "repair"


@pytest.mark.parametrize(("heard", "told"), [(None, True), (31, True), (2, False)])
def test_a_master_whose_redo_is_not_read_is_shown_so(heard: float | None, told: bool) -> None:
    of_redo = replace(replication(), master=replace(replication().master, capture="redo"))
    redo = None if heard is None else RedoStatus("process 7 on db", 1, NOW.timestamp() - heard, ())
    found = [message.text for message in master_messages(of_redo, LiveMaster(redo=redo), NOW)]
    assert any("Start the DAG capture_redo" in text for text in found) is told
    binary = RedoStatus("process 7 on db", 1, NOW.timestamp() - 172_800, (), capture="binlog", kept_seconds=864_000.0)
    recorded = replace(of_redo, master=replace(of_redo.master, capture="binlog"))
    (first, *_) = master_messages(recorded, LiveMaster(redo=binary), NOW)
    assert "The master deletes its log after 10 days, read or not: changes begin to be lost in 8 days" in first.text
    assert "set binlog_expire_logs_seconds" in first.text
    (first, *_) = master_messages(recorded, LiveMaster(redo=replace(binary, kept_seconds=90.0)), NOW)
    assert "changes may be lost already" in first.text


@pytest.mark.parametrize(("days", "told"), [(4, False), (6, True)])
def test_a_recorder_that_comes_near_the_deletion_of_the_log_is_told(days: int, told: bool) -> None:
    recorded = replace(replication(), master=replace(replication().master, capture="binlog"))
    read = ThreadStatus("master-bin.000012", "running", 0, 4, NOW.timestamp() - days * 86_400)
    status = RedoStatus("process 7 on db", 1, NOW.timestamp(), (read,), capture="binlog", kept_seconds=864_000.0)
    found = [message.text for message in master_messages(recorded, LiveMaster(redo=status), NOW)]
    assert any("The recorder is 6 days behind. The master deletes its log" in text for text in found) is told


def test_a_master_says_what_waits_and_what_is_not_captured() -> None:
    queue = MeasuredQueue("2026-11-22T12:00:00+00:00", 200_000_000, 10**9)
    found = master_messages(
        replication(), LiveMaster(issues=[DefinitionGap("public.t: lost", "", "")], queue=queue), NOW
    )
    assert [message.level for message in found] == [Level.CRITICAL, Level.CRITICAL]
    assert found[0] == Message(
        "public.t: lost. Start the DAG reconcile_tables with prefix DEMO_.", Level.CRITICAL, "reconcile"
    )
    assert "200,000,000 changes wait in ITEMS, 1,000 MB." in found[1].text
    many = [DefinitionGap(f"public.t{number}: lost", "", "") for number in range(8)]
    (one,) = master_messages(replication(), LiveMaster(issues=many), NOW)
    assert one.text.startswith("public.t0: lost, ") and "public.t4: lost and 3 tables more. Start the DAG" in one.text


def test_a_dropped_table_is_no_loss() -> None:
    wanted = replace(replication(), tables=(TableRule(TablePattern.parse("public.*")),))
    kept, new, gone = (TableName("public", name) for name in ("kept", "new", "gone"))
    captured = {kept: "its triggers are still being made", gone: "the table does not exist"}
    found = not_captured(wanted, [kept, new], captured)
    assert found == {kept: "its triggers are still being made", new: "it is not captured"}


# -- which slaves are shown, in which order


def survey(*replications: Replication) -> Survey:
    return Survey(replications, (), {}, ())


def some() -> tuple[Survey, LiveState]:
    found = survey(replication("A_", "x", "y"), replication("B_", "z"))
    slaves = {
        (Prefix("A_"), "x"): known(said(5)),
        (Prefix("A_"), "y"): known(said(900)),
        (Prefix("B_"), "z"): known(said(1, state="INCONSISTENT", message="disk full")),
    }
    return found, LiveState(slaves=slaves)


@pytest.mark.parametrize(
    ("choice", "pairs"),
    [
        (Choice(), ["A_ → x", "A_ → y", "B_ → z"]),
        (Choice(find="y"), ["A_ → y"]),
        (Choice(find="b_ DISK"), ["B_ → z"]),
        (Choice(state="NORMAL"), ["A_ → x", "A_ → y"]),
        (Choice(level="attention"), ["A_ → y", "B_ → z"]),
        (Choice(sort="lag"), ["A_ → y", "A_ → x", "B_ → z"]),
        (Choice(sort="-lag"), ["B_ → z", "A_ → x", "A_ → y"]),
        (Choice(sort="state"), ["A_ → y", "B_ → z", "A_ → x"]),
        (Choice(sort="nonsense"), ["A_ → x", "A_ → y", "B_ → z"]),
        (Choice(find="nothing like that"), []),
    ],
)
def test_slaves_are_found_and_sorted(choice: Choice, pairs: list[str]) -> None:
    page = overview(Gathered(*some(), NOW), choice, NOW)
    rows = page.rows or [one for group in page.groups for one in group.rows]
    assert [one.pair for one in rows] == pairs and page.shown == len(pairs)
    assert page.slaves == 3 and [one.pair for one in page.attention] == ["A_ → y", "B_ → z"], "whatever is shown"


def rendered(found: Survey, slaves: LiveState, choice: Choice = ALL, visitor: Visitor = ANNA, **more: Any) -> str:
    gathered = Gathered(found, slaves, NOW, **more)
    values = {
        "page": overview(gathered, choice, NOW), "gathered": gathered, "now": NOW,
        "link": lambda **_: "?", "root": "/sluice", "airflow": "", "visitor": visitor, "here": "overview", "poll": 3,
        "attention_shown": 8, "part": False,
    }  # fmt: skip
    return environment().get_template("overview.html").render(values)


def test_a_master_that_needs_a_person_stands_first_whatever_the_order() -> None:
    found, slaves = some()
    lost = LiveMaster(issues=[DefinitionGap("public.t: it is not captured", "", "")])
    slaves = replace(slaves, masters={Prefix("B_"): lost})
    for choice in (Choice(), Choice(sort="lag"), Choice(level="attention")):
        assert [group.prefix for group in overview(Gathered(found, slaves, NOW), choice, NOW).masters] == ["B_"]
        page = rendered(found, slaves, choice)
        assert "<b>3</b> need a look" in page and page.count("public.t: it is not captured") == 1
        assert page.index("public.t: it is not captured") < page.index("A_ → y")
    assert "public.t: it is not captured" in rendered(found, slaves, Choice(find="b_"))
    alone = LiveState(slaves={(Prefix("A_"), "x"): known(said(5))}, masters={Prefix("A_"): lost})
    page = rendered(survey(replication("A_", "x")), alone, Choice(level="attention"))
    assert "<b>1</b> needs a look" in page and "No slave matches" not in page


def test_a_slave_is_green_only_if_nothing_is_wrong_with_it() -> None:
    green = 'class="lamp lamp-NORMAL"'
    for behind, shown_green in ((5, True), (900, False)):
        slaves = LiveState(slaves={(Prefix("A_"), "x"): known(said(behind))})
        page = rendered(survey(replication("A_", "x")), slaves)
        table = page[page.index("<tbody") :]
        assert (green in table) is shown_green and "NORMAL" in table
        assert ('aria-label="critical"' in table) is not shown_green


def test_a_folder_that_cannot_be_read_is_told_once_and_as_what_it_is() -> None:
    text = "/x: cannot be listed: No such file or directory"
    mistake = Mistake(Path("/x"), 0, "", "cannot be listed: No such file or directory", "create it")
    page = rendered(Survey((), (mistake,), {}, ()), LiveState(), trouble=text)
    assert page.count("cannot be listed") == 1 and "<b>0</b> slaves" not in page
    assert (
        "No replication can be shown until that is fixed" in page
        and "What Redis said" not in page
        and "applies wait" not in page
    )


def test_hostile_text_stays_text() -> None:
    evil = "<script>alert(1)</script>\"'&]]>"
    status = said(message=evil, not_ready={f'public."{evil}"'.replace("\"'", "'"): "absent"}, state="INCONSISTENT")
    text = rendered(survey(replication()), LiveState(slaves={(Prefix("DEMO_"), "dr1"): known(status)}))
    assert "alert(1)" in text and "<script>alert" not in text and "]]></" not in text
    assert re.findall(r"<script[^>]*>", text) == ['<script src="/sluice/static/monitor.js" defer>']


def test_a_reader_is_offered_nothing_to_press() -> None:
    reader = Visitor("eve", frozenset(), False, "key")
    assert "/sluice/actions/initiate" in rendered(*some())
    assert "/sluice/actions/" not in rendered(*some(), visitor=reader)


def test_without_redis_it_says_so_and_shows_what_was_known() -> None:
    text = rendered(*some(), trouble="Redis does not answer: refused")
    assert "Redis does not answer: refused" in text and "What Redis said at 2026-11-22 12:00:00 UTC follows" in text
    assert "A_" in text and "disk full" in text


def many(count: int) -> tuple[Survey, LiveState]:
    """50 slaves a master, each with an hour of samples and thirty tables."""
    minute = int(NOW.timestamp() // 60)
    samples = [Sample(minute - 59 + number, number % 7, 600) for number in range(60)]
    tables = {f"public.t{number}": {"outcome": "identical", "time": NOW.isoformat()} for number in range(30)}
    masters = [replication(f"M{number}_", *(f"dr{one}" for one in range(50))) for number in range(count // 50)]
    slaves = {
        (one.prefix, slave): known(said(place % 90, rate=10), samples=samples, tables=tables)
        for one in masters
        for place, slave in enumerate(one.slaves)
    }
    return survey(*masters), LiveState(slaves=slaves)


@pytest.mark.long
def test_the_work_of_a_page_grows_with_its_slaves_and_no_faster() -> None:
    """Ten times the slaves execute about ten times the lines of Python."""

    def lines(count: int) -> int:
        found = many(count)
        executed = 0

        def trace(*_: object) -> Any:
            nonlocal executed
            executed += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            text = rendered(*found)
        finally:
            sys.settrace(before)
        assert text.count('class="slave ') == count
        return executed

    rendered(*many(50))  # imports and compiles
    empty = lines(0)
    assert lines(500) - empty < 11 * (lines(50) - empty)


# -- samples and curves


def test_a_minute_is_summed_up_when_it_is_over() -> None:
    sampler = Sampler()
    assert sampler.sample(60.0, 1.0) is None
    sampler.applied(AppliedWindow(61.0, 100, 0.1))
    assert sampler.sample(90.0, 7.0) is None and sampler.sample(100.0, 2.0) is None
    assert sampler.rate(62.0) == 10.0 and sampler.rate(80.0) == 0.0
    assert sampler.sample(121.0, None) == Sample(1, 7.0, 100)
    assert sampler.sample(600.0, 1.0) == Sample(2, None, 0), "a minute in which nothing was known"
    assert [window.changes for window in sampler.windows(100.0)] == [100] and sampler.windows(122.0) == []


@pytest.mark.parametrize("sample", [Sample(29_000_000, 1.25, 17), Sample(0, None, 0)])
def test_a_sample_is_read_back_as_it_was(sample: Sample) -> None:
    assert Sample.parse(sample.text()) == sample


def test_a_curve_has_gaps_where_nothing_ran() -> None:
    minute = int(NOW.timestamp() // 60)
    samples = [Sample(minute - back, lag, 60) for back, lag in ((3, 1.0), (2, 4.0), (1, None), (0, 2.0), (90, 99.0))]
    samples.sort(key=lambda one: one.minute)
    curve = lag_curve(samples, NOW.timestamp())
    assert curve.line.count("M") == 2, "two strokes with a gap between"
    assert (curve.top, curve.last) == (4.0, 2.0), "what is older than the curve does not count"
    assert rate_curve([], NOW.timestamp()).line == ""


def test_every_template_is_complete() -> None:
    """Each template compiles, and none has a style, a script or an event handler: the headers forbid them."""
    folder = Path(environment().loader.searchpath[0])  # type: ignore[union-attr]
    names = sorted(file.name for file in folder.glob("*.html"))
    assert len(names) > 5
    for name in names:
        environment().get_template(name)
        text = (folder / name).read_text()
        assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:|\| *safe", text), name
