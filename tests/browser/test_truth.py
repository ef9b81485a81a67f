"""What page, overview, data and command say of a slave, for each state of each DAG, compared with Airflow's metadata.

The runs are those of a real Airflow, whose states are set as its scheduler sets them.
"""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from sluice.airflow.pages import gathering
from sluice.airflow.pages.airflow_runs import DAGS
from sluice.cli.airflow_api import AirflowApi
from sluice.coordination import redis_store
from sluice.coordination.lease import Lease
from sluice.operate.actions import ACTIONS, ordered
from sluice.operate.perform import perform
from tests.browser import axe
from tests.browser.rig import SHOP, Monitor, beat, forget_runs
from tests.browser.told import OF_SLAVE as PLACES
from tests.browser.told import Told, words

AGO = datetime.now(UTC) - timedelta(minutes=3)
OF_SLAVE = {"prefix": "SHOP_", "slave": "berlin"}
CONF: dict[str, dict[str, Any]] = {
    "initial_update": OF_SLAVE, "cdc_apply": OF_SLAVE, "resync": {**OF_SLAVE, "action": "verify"},
    "failover": {**OF_SLAVE, "action": "planned", "reverse": False, "override": False},
    "gate": {**OF_SLAVE, "action": "close", "reason": "x"}, "rejects": {**OF_SLAVE, "action": "list"},
    "remove_transaction": {**OF_SLAVE, "reason": "x"}, "reconcile_tables": {"prefix": "SHOP_"},
    "install_resources": {"prefix": "SHOP_"}, "uninstall_resources": {"prefix": "SHOP_", "confirm": "SHOP_"},
    "broadcast": {"prefix": "SHOP_", "statement": "SELECT 1"}, "capture_redo": {"prefix": "SHOP_"}, "housekeeping": {},
    "notify": {"prefix": "SHOP_"},
}  # fmt: skip
FIRST = {
    "cdc_apply": "apply", "resync": "due", "gate": "check", "rejects": "check", "housekeeping": "configured",
    "uninstall_resources": "check_removal", "capture_redo": "capture", "notify": "send_test",
}  # fmt: skip
REASON = "may not SELECT <b>t</b>"


@pytest.fixture
def olga(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> Iterator[AirflowApi]:
    """An administrator; pages read again each time."""
    monkeypatch.setattr(gathering, "FRESH_SECONDS", 0.0)
    forget_runs()
    beat()
    yield AirflowApi(monitor.url, token=monitor.token("olga"))
    forget_runs()


def start(api: AirflowApi, dag: str, state: str, conf: Mapping[str, Any] | None = None, **tasks: str) -> str:
    """A run in a state, with some of its tasks in states; the reason of a task that failed is `REASON`.

    `conf`: in place of that with which it is started.
    """
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    run = str(api.call("POST", f"dags/{dag}/dagRuns", {"logical_date": None, "conf": CONF[dag]})["dag_run_id"])
    with create_session() as session:
        one = session.query(DagRun).filter(DagRun.dag_id == dag, DagRun.run_id == run).one()
        one.start_date = one.queued_at = AGO
        one._state = state
        one.conf = dict(conf) if conf else one.conf
        one.end_date = AGO if state in ("failed", "success") else None
        for instance in session.query(TaskInstance).filter(TaskInstance.dag_id == dag, TaskInstance.run_id == run):
            instance.state = tasks.get(instance.task_id, instance.state)
            instance.start_date = AGO if instance.task_id in tasks else None
            instance.end_date = AGO if instance.state in ("success", "failed") else None
            if instance.state in ("failed", "up_for_retry"):
                XComModel.set("failure", REASON, dag_id=dag, task_id=instance.task_id, run_id=run, session=session)
    return run


def ask(dag: str, run: str, task: str, subject: str, body: str) -> str:
    from airflow.models.hitl import HITLDetail
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    with create_session() as session:
        asking = (
            session.query(TaskInstance)
            .filter(TaskInstance.dag_id == dag, TaskInstance.run_id == run, TaskInstance.task_id == task)
            .one()
        )
        asking.state = "awaiting_input"
        session.add(HITLDetail(ti_id=asking.id, options=["Approve", "Reject"], subject=subject, body=body))
        return str(asking.id)


@pytest.fixture
def told(olga: AirflowApi, monitor: Monitor) -> Callable[[], Told]:
    return lambda: Told(monitor, "SHOP_", "berlin", olga)


def test_a_slave_of_which_nothing_waits_or_failed_is_green(told: Callable[[], Told]) -> None:
    assert (told().slave["level"], told().slave["messages"]) == ("fine", [])


QUICK = ("initial_update", "reconcile_tables", "resync of all pairs")
"""A run about a slave, one about a replication, and a question: the rest is decided alike."""


def some(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in names]


@pytest.mark.parametrize("dag", some(dag for dag in DAGS if dag != "cdc_apply"))
def test_a_failed_run_of_each_dag_is_shown_with_its_reason_until_it_is_put_aside_or_made_up_for(
    dag: str, olga: AirflowApi, told: Callable[[], Told]
) -> None:
    run = start(olga, dag, "failed", **{FIRST.get(dag, "check"): "failed"})
    seen = told()
    text = f"in its task {FIRST.get(dag, 'check')}: {REASON}"
    if dag == "housekeeping":
        shown = {"overview", "status"}
        assert text in str(seen.data["messages"])
    elif "slave" in CONF[dag]:
        shown = set(PLACES)
        assert seen.slave["level"] == "critical"
        ((failed),) = [one for one in seen.slave["messages"] if one["run"] == run]
        assert failed["dag"] == dag
    else:
        shown = {"overview", "master", "status"}
        assert text in str(seen.master["messages"])
    assert seen.saying(text) >= shown, seen.places
    if CONF[dag]:
        done = perform(olga, ordered(ACTIONS["put_aside"], "SHOP_", (), {"dag": dag, "run": run}, "known"))
        assert done.runs == ((dag, run),)
        assert not told().saying(text)
        start(olga, dag, "failed", **{FIRST.get(dag, "check"): "failed"})
        assert told().saying(text)
    start(olga, dag, "success")
    assert not told().saying(text)


@pytest.mark.long
def test_a_task_that_is_tried_again_says_why_and_where(olga: AirflowApi, told: Callable[[], Told]) -> None:
    """Accident 13: the disk of the job folder is full."""
    start(olga, "initial_update", "running", check="success", load="up_for_retry")
    seen = told()
    assert seen.saying(f"The initial update tries its task load again: {REASON}") >= set(PLACES)
    assert seen.slave["level"] == "warning"


QUESTIONS = {
    "initial_update": ("approve", "SHOP_ → berlin: WAITING (stored on '/a')"),
    "resync": ("approve_repair", "SHOP_ → berlin: repair 5 rows of 1 table?"),
    "failover": ("approve", "Planned failover of SHOP_ → berlin"),
}


@pytest.mark.parametrize("dag", some([*QUESTIONS, "resync of all pairs"]))
def test_a_question_is_shown_with_its_evidence_and_what_each_answer_does(
    dag: str, olga: AirflowApi, told: Callable[[], Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = dag.partition(" ")[0]
    if name != dag:
        monkeypatch.setitem(CONF, name, {})
    task, subject = QUESTIONS[name]
    run = start(olga, name, "running", check="success")
    body = (
        "**Approve**: it is done.\n\n**Reject**: nothing.\n\n- `public.t`: 5 rows <i>\n\n[Report](/sluice/reports/x/)"
    )
    question = ask(name, run, task, subject, body)
    seen = told()
    for place, said in seen.places.items():
        assert place == "master" or subject in said, place
    assert seen.slave["level"] == "warning" and not seen.html.count("<i>")
    assert f"question={question}" in seen.html and '<a href="/sluice/reports/x/"' in seen.html
    for place in ("page", "status", "status of it"):
        assert "it is done." in seen.places[place] and "public.t" in seen.places[place]
    assert f"./sluice act approve SHOP_ berlin --set question={question}" in seen.places["status"]
    ((message),) = [one for one in seen.slave["messages"] if one["question"]]
    assert (message["question"], message["run"], message["details"]) == (question, run, body)


PHASES: list[tuple[dict[str, str], str, str]] = [
    ({"check": "success", "verify": "running"}, "The master takes writes", "warning"),
    ({"prepare": "success", "switch_over": "running"}, "the master may have refused writes since", "critical"),
    ({"switch_over": "success", "follow": "running"}, "the slave has been the master since", "warning"),
]


@pytest.mark.long
@pytest.mark.parametrize(("tasks", "text", "level"), PHASES)
def test_a_failover_is_shown_in_its_phases(
    tasks: dict[str, str], text: str, level: str, olga: AirflowApi, told: Callable[[], Told]
) -> None:
    start(olga, "failover", "running", **tasks)
    seen = told()
    assert seen.slave["level"] == level
    for place in PLACES:
        assert text in seen.places[place], place
    assert ("may have refused writes" in seen.places["master"]) is (level == "critical")


@pytest.mark.long
def test_why_an_apply_does_not_run_is_said_before_any_advice(
    olga: AirflowApi, monitor: Monitor, told: Callable[[], Told]
) -> None:
    """Accident 6: `cdc_apply` is paused, and the driver was killed; and an apply that waits in a long queue."""
    with redis_store.connect(monitor.redis_url) as client:
        key = Lease(client, SHOP, "berlin", 1.0).key
        client.delete(key)
    assert "No apply runs" in told().places["page"] and "start it" in told().places["status"]
    start(olga, "cdc_apply", "running", apply="up_for_retry")
    seen = told()
    assert "Airflow starts it again in a moment" in seen.places["page"] and "start it" not in seen.places["page"]
    forget_runs()
    start(olga, "cdc_apply", "running", apply="queued")
    for place in ("page", "status", "overview.json"):
        assert "The apply has waited in Airflow's queue since" in told().places[place]
    beat(datetime.now(UTC) - timedelta(hours=1))
    assert "Airflow's scheduler has not been seen for 60 min" in told().places["overview"]
    beat()
    olga.call("PATCH", "dags/cdc_apply?update_mask=is_paused", {"is_paused": True})
    try:
        seen = told()
        for place in PLACES:
            assert "the DAG cdc_apply is paused in Airflow" in seen.places[place], place
            assert "start it" not in seen.places[place], place
    finally:
        olga.call("PATCH", "dags/cdc_apply?update_mask=is_paused", {"is_paused": False})


@pytest.mark.long
def test_an_apply_whose_run_was_deleted_is_shown_as_it_is(
    olga: AirflowApi, monitor: Monitor, told: Callable[[], Told]
) -> None:
    """Accident 7: the apply continues, and nothing is wrong until it ends."""
    start(olga, "cdc_apply", "running", apply="deferred")
    forget_runs()
    seen = told()
    assert (seen.slave["level"], seen.slave["state"], seen.slave["applying"]) == ("fine", "NORMAL", True)
    with redis_store.connect(monitor.redis_url) as client:
        client.delete(Lease(client, SHOP, "berlin", 1.0).key)
    assert told().saying("No apply runs") >= set(PLACES)


@pytest.mark.long
def test_a_mistake_in_one_file_is_told_and_stops_no_other_slave(olga: AirflowApi, told: Callable[[], Told]) -> None:
    """Accident 8; what the file configured still runs."""
    start(olga, "cdc_apply", "running", conf={"prefix": "STOCK_", "slave": "dr2"}, apply="deferred")
    file = Path(os.environ["SLUICE_REPLICATIONS"]) / "stock.yaml"
    text = file.read_text()
    file.write_text(text.replace("slaves: {", "slaves: ["))
    try:
        seen = told()
    finally:
        file.write_text(text)
    for place in ("overview", "status"):
        assert "stock.yaml:4" in seen.places[place] and "STOCK_ → dr2 is not configured" in seen.places[place], place
    assert "stock.yaml:4" in str(seen.data["broken"]) and "STOCK_ → dr2" in str(seen.data["messages"])
    assert (seen.slave["level"], seen.slave["applying"]) == ("fine", True)
    assert "stock.yaml" not in seen.places["page"]
    assert not told().data["broken"]


@pytest.mark.long
@pytest.mark.parametrize("how", ["removed", "renamed"])
def test_an_apply_whose_file_was_removed_or_renamed_is_shown(
    how: str, olga: AirflowApi, told: Callable[[], Told]
) -> None:
    """Accident 9: it stands there by its old name, and nobody is led to start another one for the same slave."""
    start(olga, "cdc_apply", "running", conf={"prefix": "STOCK_", "slave": "dr2"}, apply="deferred")
    file = Path(os.environ["SLUICE_REPLICATIONS"]) / "stock.yaml"
    text = file.read_text()
    if how == "removed":
        file.unlink()
    else:
        file.write_text(text.replace("STOCK_", "NEW_"))
    try:
        seen = told()
    finally:
        file.write_text(text)
    for place in ("overview", "status"):
        assert "STOCK_ → dr2 is not configured, and its apply has been running since" in seen.places[place], place
        assert "Start nothing for the same database before." in seen.places[place], place
        assert "Start one." not in seen.places[place], place
    assert "STOCK_ → dr2" in str(seen.data["messages"])


@pytest.mark.long
def test_without_airflows_metadata_no_advice_needs_it(
    olga: AirflowApi, monitor: Monitor, told: Callable[[], Told]
) -> None:
    """Accident 17: the metadata database does not answer, and the driver was killed."""
    from airflow.utils.session import create_session
    from sqlalchemy import text

    start(olga, "failover", "running", check="success", verify="running")
    assert told().saying("The master takes writes") >= set(PLACES)
    with redis_store.connect(monitor.redis_url) as client:
        client.delete(Lease(client, SHOP, "berlin", 1.0).key)
    with create_session() as session:
        session.execute(text("ALTER TABLE dag_run RENAME TO lost"))
    try:
        seen = told()
    finally:
        with create_session() as session:
            session.execute(text("ALTER TABLE lost RENAME TO dag_run"))
    for place in PLACES:
        assert "its metadata cannot be read" in seen.places[place], place
        assert "start it" not in seen.places[place], place
        assert "The master takes writes" in seen.places[place], place
    assert seen.slave["state"] == "NORMAL"
    assert not told().saying("its metadata cannot be read")


def test_an_answer_that_is_no_longer_asked_for_is_refused(olga: AirflowApi, monitor: Monitor) -> None:
    token = {"Authorization": f"Bearer {monitor.token('olga')}"}
    page = f"{monitor.url}/sluice/actions/approve?prefix=SHOP_&slave=berlin&question={uuid.uuid4()}"
    answer = httpx.get(page, headers=token, timeout=60)
    assert answer.status_code == 404 and "waits no more" in words(answer.text)


@pytest.mark.long
def test_questions_and_failures_can_be_read_by_everybody_and_answered_in_two_clicks(
    olga: AirflowApi, monitor: Monitor, browser: Browser
) -> None:
    run = start(olga, "failover", "running", check="success")
    subject = QUESTIONS["failover"][1]
    question = ask("failover", run, "approve", subject, "**Approve**: the master refuses writes.\n\n- `one`: 1\n- two")
    start(olga, "gate", "failed", check="failed")
    page = monitor.page(browser)
    for place in ("", "slaves/SHOP_/berlin/", f"actions/approve?prefix=SHOP_&slave=berlin&question={question}"):
        faults = axe.faults_everywhere(page, f"{monitor.url}/sluice/{place}")
        assert not faults, "\n".join(faults)
    page.goto(f"{monitor.url}/sluice/")
    page.locator(".message", has_text=subject).get_by_role("link", name="Answer").click()
    expect(page.get_by_role("main")).to_contain_text("the master refuses writes")
    page.get_by_label("Why").press("Enter")
    answer = olga.get(f"dags/failover/dagRuns/{run}/taskInstances/approve/-1/hitlDetails")
    assert not answer["chosen_options"], "Return in the field approves nothing"
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("status").filter(has_text="Reject")).to_contain_text(f"Reject: {subject}")
    answer = olga.get(f"dags/failover/dagRuns/{run}/taskInstances/approve/-1/hitlDetails")
    assert answer["chosen_options"] == ["Reject"]
    page.context.close()


@pytest.mark.long
def test_a_slave_with_rows_is_not_emptied_without_a_reason(
    olga: AirflowApi, monitor: Monitor, browser: Browser
) -> None:
    page = monitor.page(browser)
    page.goto(f"{monitor.url}/sluice/actions/initiate?prefix=SHOP_&slave=berlin")
    expect(page.get_by_role("main")).to_contain_text("All tables of berlin are emptied or replaced")
    page.get_by_label("public.orders").check()
    page.get_by_role("button", name="Initiate").click()
    assert page.get_by_label("Why").evaluate("field => field.validity.valueMissing"), "the browser asks for it"
    page.get_by_label("Why").fill("a test")
    page.get_by_role("button", name="Initiate").click()
    expect(page.get_by_role("status").filter(has_text="started")).to_be_visible()
    ((_, conf),) = [(one["dag_id"], one["conf"]) for one in olga.get("dags/initial_update/dagRuns")["dag_runs"]]
    assert (conf["slave"], conf["tables"]) == ("berlin", ["public.orders"])
    page.context.close()
