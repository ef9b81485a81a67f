"""What the runs of each DAG, in each state, mean for a slave: the messages of page, data and command."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.airflow.pages.airflow_runs import DAGS
from sluice.airflow.pages.message import Level, Message
from sluice.airflow.pages.run_messages import NAMES, Beside, no_apply, of_airflow, of_failover, of_runs
from sluice.operate.api import Question
from sluice.operate.open_runs import Airflow, Run, Task, not_over
from tests.airflow_home import ROOT

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
AGO = NOW - timedelta(minutes=2)
QUIET = Airflow(scheduler=NOW, asked=True)


def run(dag: str, state: str = "running", *tasks: Task, **more: object) -> Run:
    values = {"id": "r1", "prefix": "P_", "slaves": ("a",), "since": AGO, "tasks": tasks, **more}
    return Run(dag=dag, state=state, **values)  # type: ignore[arg-type]


def said(*runs: Run, airflow: Airflow = QUIET, before: str = "") -> list[tuple[str, Level, str]]:
    return [(one.text, one.level, one.remedy) for one in of_runs(runs, airflow, NOW, before)]


def test_every_dag_has_a_name_for_people() -> None:
    dags = {file.stem for file in (ROOT / "dags").glob("*.py")} - {"configuration"}
    assert dags == set(DAGS) == set(NAMES)


STATES = {
    "waits in the queue": ("queued", (), "has waited in Airflow's queue since 11:58:00 UTC", Level.WARNING),
    "its tasks wait": ("running", (Task("check", "scheduled", AGO),), "has waited in Airflow's queue", Level.WARNING),
    "tries again": (
        "running",
        (Task("check", "up_for_retry", AGO, "no route to host"),),
        "tries its task check again: no route to host",
        Level.WARNING,
    ),
    "failed": (
        "failed",
        (Task("settle", "failed", NOW), Task("check", "failed", AGO, "may not SELECT")),
        "failed at 11:58:00 UTC in its task check: may not SELECT",
        Level.CRITICAL,
    ),
    "failed without a word": (
        "failed",
        (Task("load", "failed", AGO),),
        "in its task load: the log of that task says why",
        Level.CRITICAL,
    ),
}


@pytest.mark.parametrize(("dag", "state"), [(dag, state) for dag in DAGS if dag != "cdc_apply" for state in STATES])
def test_each_state_of_each_dag_is_told(dag: str, state: str) -> None:
    of_run, tasks, text, level = STATES[state]
    ((told, how, _),) = said(run(dag, of_run, *tasks))
    assert told.startswith(NAMES[dag]) and text in told and how is level


@pytest.mark.parametrize("dag", DAGS)
def test_a_run_that_asks_shows_its_question_and_its_evidence(dag: str) -> None:
    if dag == "cdc_apply":
        return
    asks = run(dag, question=Question("approve", "P_ → a: repair 5 rows?", "- s.t: 5 rows", "q1"))
    (message,) = of_runs([asks], QUIET, NOW)
    assert "has waited for a person's answer since 11:58:00 UTC: P_ → a: repair 5 rows?" in message.text
    assert (message.level, message.remedy) == (Level.WARNING, "approve")
    assert (message.question, message.details, message.run) == ("q1", "- s.t: 5 rows", "r1")


def test_a_run_of_a_paused_dag_is_told_with_the_cause() -> None:
    ((text, level, _),) = said(run("initial_update"), airflow=replace(QUIET, paused=frozenset({"initial_update"})))
    assert "has not continued" in text and "is paused in Airflow" in text and level is Level.CRITICAL


def test_what_is_said_already_is_not_said_twice() -> None:
    failed = run("initial_update", "failed", Task("load", "failed", AGO, "disk full on dr1"))
    before = "The slave is INCONSISTENT: disk full on dr1. Start an initial update."
    assert said(failed, before=before) == []
    assert said(run("initial_update", "failed", Task("load", "failed", AGO)), before=before) == [], "marked by a person"
    other = run("initial_update", "failed", Task("check", "failed", AGO, "may not SELECT"))
    assert len(said(other, before=before)) == 1, "another reason"


def test_a_run_that_did_nothing_because_of_a_wrong_name_is_no_alarm() -> None:
    failed = run("resync", "failed", Task("due", "failed", AGO, "'public.nosuch' is no table … [no-such-table]"))
    ((_, level, remedy),) = said(failed)
    assert (level, remedy) == (Level.WARNING, "verify")


SWITCHES, KILLED = [("switch_over", "running")], [("switch_over", "up_for_retry")]
PHASES: dict[str, tuple[Sequence[tuple[str, str]], str | None, str, Level]] = {
    "checks": ([("check", "running")], "", "is under way. The master takes writes. Its step now: check", Level.WARNING),
    "prepared": ([("check", "success"), ("begin", "success")], "", "The master takes writes", Level.WARNING),
    "prepares": ([("verify", "success"), ("prepare", "running")], "", "The master takes writes", Level.WARNING),
    "approaches": (SWITCHES, "", "The master takes writes. Its step now: switch_over", Level.WARNING),
    "guarded": (SWITCHES, "2026-11-22T11:59:01Z", "the master has refused writes since 11:59:01 UTC", Level.CRITICAL),
    "not known": (SWITCHES, None, "the master may have refused writes since 11:58:00 UTC", Level.CRITICAL),
    "was killed before": (KILLED, "", "tries its task switch_over again. The master takes writes", Level.WARNING),
    "was killed within": (KILLED, "2026-11-22T11:59:01Z", "The master refuses writes meanwhile.", Level.CRITICAL),
    "was killed somewhere": (KILLED, None, "The master may refuse writes meanwhile.", Level.CRITICAL),
    "switched": (
        [("switch_over", "success"), ("follow", "running")],
        "",
        "the slave has been the master since 11:58:00 UTC",
        Level.WARNING,
    ),
    "undone": ([("switch_over", "failed"), ("settle", "running")], "", "The master takes writes", Level.WARNING),
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_failover_is_shown_in_each_phase(phase: str) -> None:
    tasks, refused, text, level = PHASES[phase]
    parts = [Task(name, state, AGO) for name, state in tasks]
    one = run("failover", "running", *parts, action="planned", refused=refused)
    ((told, how, _),) = said(one)
    assert told.startswith("The failover") and text in told and how is level
    assert bool(of_failover([one], NOW)) is (level is Level.CRITICAL), "the master's own page says it, too"
    assert not of_failover([replace(one, action="forced")], NOW), "there is no master that could refuse"


PAUSED = frozenset({"cdc_apply"})
NO_APPLY = {
    "nobody started it": (Beside(airflow=QUIET), "No apply runs: start it.", Level.CRITICAL, "restart"),
    "Airflow was not asked": (Beside(), "No apply runs: start it.", Level.CRITICAL, "restart"),
    "its run failed": (
        Beside([run("cdc_apply", "failed", Task("apply", "failed", AGO, "no such key."))], QUIET),
        "its run failed: no such key. Fix that, then start it.",
        Level.CRITICAL,
        "restart",
    ),
    "Airflow is silent": (
        Beside(airflow=replace(QUIET, trouble="its metadata cannot be read (x).")),
        "Airflow does not say why: its metadata cannot be read (x).",
        Level.CRITICAL,
        "",
    ),
    "paused, and its run waits": (
        Beside([run("cdc_apply", "running", Task("apply", "up_for_retry", AGO))], replace(QUIET, paused=PAUSED)),
        "the DAG cdc_apply is paused in Airflow. Unpause it (Dags, cdc_apply, the switch beside its name); its run",
        Level.CRITICAL,
        "",
    ),
    "paused, and no run": (
        Beside(airflow=replace(QUIET, paused=PAUSED)),
        "the DAG cdc_apply is paused in Airflow.",
        Level.CRITICAL,
        "",
    ),
    "in the queue": (
        Beside([run("cdc_apply", "running", Task("apply", "queued", AGO))], replace(QUIET, waiting=1720)),
        "has waited in Airflow's queue since 11:58:00 UTC, which has 1,720 tasks.",
        Level.CRITICAL,
        "",
    ),
    "no scheduler": (
        Beside([run("cdc_apply", "running", Task("apply", "scheduled", AGO))], replace(QUIET, scheduler=AGO)),
        "Airflow's scheduler has not been seen for 2 min",
        Level.CRITICAL,
        "",
    ),
    "ended a moment ago": (
        Beside([run("cdc_apply", "running", Task("apply", "up_for_retry", NOW, "killed"))], QUIET),
        "has ended, and Airflow starts it again in a moment: killed",
        Level.WARNING,
        "",
    ),
    "starting": (
        Beside([run("cdc_apply", "running", Task("apply", "deferred", AGO))], QUIET),
        "does not hold its lease in Redis",
        Level.WARNING,
        "",
    ),
}


@pytest.mark.parametrize("why", NO_APPLY)
def test_no_advice_is_given_before_the_cause_is_known(why: str) -> None:
    beside, text, level, remedy = NO_APPLY[why]
    message = no_apply(beside, None, NOW)
    assert text in message.text and (message.level, message.remedy) == (level, remedy), message.text
    assert remedy == "restart" or "start it" not in message.text.lower(), "no advice beside another cause"


def test_an_apply_that_no_file_configures_is_told() -> None:
    lost = run("cdc_apply", prefix="OLD_")
    (message,) = of_airflow(replace(QUIET, runs=(lost, run("cdc_apply"))), frozenset({("P_", "a")}), NOW)
    assert message.text.startswith("OLD_ → a is not configured, and its apply has been running since 11:58:00 UTC")
    assert (message.level, message.dag, message.run) == (Level.CRITICAL, "cdc_apply", "r1")


def test_what_concerns_all_is_told_once() -> None:
    def texts(airflow: Airflow) -> list[str]:
        return [one.text for one in of_airflow(airflow, frozenset(), NOW)]

    assert texts(QUIET) == []
    assert "has not been seen for 2 min" in texts(replace(QUIET, scheduler=AGO))[0]
    assert "has not been seen yet" in texts(replace(QUIET, scheduler=None))[0]
    assert texts(Airflow()) == [], "nobody asked"
    assert "1,720 tasks" in texts(replace(QUIET, waiting=1720))[0]
    assert "is paused" in texts(replace(QUIET, paused=PAUSED))[0]
    broken = run("housekeeping", "failed", Task("purge_items", "failed", AGO, "no"), prefix="", slaves=())
    assert "Housekeeping failed" in texts(replace(QUIET, runs=(broken,)))[0]


def test_a_daily_comparison_concerns_the_pairs_that_it_asks_about() -> None:
    asks = Question("approve_repair", "P_ → a, P_ → c: repair 7 rows of 2 tables?", "", "q")
    daily = Airflow((run("resync", prefix="", slaves=(), question=asks),))
    assert [bool(daily.about("P_", slave)) for slave in "abc"] == [True, False, True]
    assert daily.of_all == [] and daily.about("X_", "a") == []
    of_one = Airflow((run("resync", "failed", slaves=()),))
    assert of_one.about("P_", "b") and not of_one.about("X_", "b"), "of all slaves of a replication"


UPDATE = run("initial_update", "failed")
OVER = [
    ("the same, later", UPDATE, run("initial_update", "success"), True),
    ("the same, under way", UPDATE, run("initial_update"), True),
    ("a part only", UPDATE, run("initial_update", "success", tables=("s.t",)), False),
    ("the whole after a part", replace(UPDATE, tables=("s.t",)), run("initial_update", "success"), True),
    ("another part", replace(UPDATE, tables=("s.t",)), run("initial_update", "success", tables=("s.u",)), False),
    ("more tables", replace(UPDATE, tables=("s.t",)), run("initial_update", tables=("s.t", "s.u")), True),
    ("some rows", replace(UPDATE, tables=("s.t",)), run("initial_update", tables=("s.t",), rows="where x"), False),
    ("another slave", UPDATE, run("initial_update", "success", slaves=("b",)), False),
    ("several slaves", UPDATE, run("initial_update", "success", slaves=("b", "a")), True),
    ("one of several", replace(UPDATE, slaves=("a", "b")), run("initial_update", "success"), False),
    ("another prefix", UPDATE, run("initial_update", "success", prefix="X_"), False),
    ("another DAG", UPDATE, run("resync", "success"), False),
    ("all slaves", run("resync", "failed"), run("resync", "success", slaves=()), True),
    ("a check", run("failover", "failed", action="planned"), run("failover", "success", action="check"), False),
    ("an abort", run("failover", "failed", action="planned"), run("failover", "success", action="abort"), True),
    ("a list", run("rejects", "failed", action="apply"), run("rejects", "success", action="list"), False),
    ("open after close", run("gate", "failed", action="close"), run("gate", "success", action="open"), True),
]


@pytest.mark.parametrize(("what", "failed", "later", "over"), OVER, ids=[one[0] for one in OVER])
def test_a_failed_run_is_over_when_a_later_one_does_the_same(what: str, failed: Run, later: Run, over: bool) -> None:
    del what
    assert (failed not in not_over([failed, later])) is over
    assert failed in not_over([later, failed]), "what happened before counts not"
    assert not_over([replace(failed, note="P_ → a (put aside by a person: known)")]) == []


NAMED = st.builds(
    Run,
    dag=st.sampled_from(DAGS),
    id=st.sampled_from("xyz"),
    prefix=st.sampled_from(["P_", "Q_", ""]),
    slaves=st.sampled_from([("a",), ("b",), ("a", "b"), ()]),
    state=st.sampled_from(["queued", "running", "failed", "success"]),
    action=st.sampled_from(["", "check", "planned"]),
    tables=st.sampled_from([(), ("s.t",), ("s.t", "s.u")]),
)


@given(st.lists(NAMED, max_size=8))
def test_whatever_is_active_and_the_last_failure_of_a_kind_are_never_lost(runs: list[Run]) -> None:
    found = not_over(runs)
    assert [one for one in found if one.active] == [one for one in runs if one.active]
    if runs and runs[-1].state == "failed":
        assert runs[-1] in found
    airflow = Airflow(tuple(found), asked=True, scheduler=NOW)
    shown: list[Message] = of_airflow(airflow, frozenset(product(["P_", "Q_"], "ab")), NOW)
    for prefix, slave in product(["P_", "Q_"], "ab"):
        shown += of_runs(airflow.about(prefix, slave), airflow, NOW)
    for prefix in ("P_", "Q_"):
        shown += of_runs(airflow.of_master(prefix), airflow, NOW)
    for one in found:
        if one.state == "failed" and one.dag != "cdc_apply" and (one.prefix or not one.slaves):
            assert any(message.failed and message.run == one.id for message in shown), one
