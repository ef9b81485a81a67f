"""What actions do in a real Airflow, over its public API, for people with and without the permission."""

import re
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sluice.cli.airflow_api import AirflowApi, ApiRefused
from sluice.operate.actions import ACTIONS, Incomplete, ordered
from sluice.operate.perform import Done, perform, waiting
from tests.browser.rig import PASSWORD, Monitor
from tests.errors import raises_code


@pytest.fixture
def otto(monitor: Monitor) -> Iterator[AirflowApi]:
    """A client of a user with the role operator; runs that it started are ended afterwards."""
    api = AirflowApi(monitor.url, "otto", PASSWORD)
    yield api
    for dag in ("initial_update", "cdc_apply", "failover", "resync"):
        for run in api.get(f"dags/{dag}/dagRuns", state=["queued", "running"], limit=100)["dag_runs"]:
            api.call("PATCH", f"dags/{dag}/dagRuns/{run['dag_run_id']}", {"state": "failed"})


def do(api: AirflowApi, name: str, *slaves: str, why: str = "a test", **values: str) -> Done:
    return perform(api, ordered(ACTIONS[name], "SHOP_", slaves, values, why))


def run_of(api: AirflowApi, done: Done) -> dict[str, Any]:
    ((dag, run),) = done.runs
    found: dict[str, Any] = api.get(f"dags/{dag}/dagRuns/{run}")
    return found


def states(api: AirflowApi, done: Done) -> list[tuple[str, int, str | None]]:
    """The states of a run's tasks."""
    ((dag, run),) = done.runs
    return list(api.task_states(dag, run))


@pytest.mark.long
def test_an_update_is_canceled_and_that_of_another_slave_goes_on(otto: AirflowApi) -> None:
    berlin, oslo = do(otto, "initiate", "berlin"), do(otto, "initiate", "oslo")
    canceled = do(otto, "cancel", "berlin", why="the wrong one")
    assert canceled.runs == berlin.runs
    assert run_of(otto, berlin)["note"] == "the wrong one (put aside by a person: canceled)"
    # What is left of the run is its last task, which takes the update back.
    assert {task for task, _, state in states(otto, berlin) if state is None} == {"settle"}
    assert not {state for _, _, state in states(otto, oslo)} - {None}
    with raises_code("nothing-runs", match="SHOP_ → tokyo is under way"):
        do(otto, "cancel", "tokyo")


def test_several_slaves_online_get_a_run_each(otto: AirflowApi) -> None:
    done = do(otto, "initiate", "berlin", "oslo")
    assert len(done.runs) == 2
    slaves = [otto.get(f"dags/{dag}/dagRuns/{run}")["conf"]["slave"] for dag, run in done.runs]
    assert slaves == ["berlin", "oslo"]


@pytest.mark.long
def test_an_apply_that_runs_is_restarted_in_its_own_run(otto: AirflowApi) -> None:
    first = do(otto, "restart", "berlin")
    again = do(otto, "restart", "berlin", why="it hangs")
    assert again.runs == first.runs
    ((dag, run),) = again.runs
    task = otto.get(f"dags/{dag}/dagRuns/{run}/taskInstances/apply")
    assert task["note"] == "it hangs"
    assert do(otto, "restart", "oslo").runs != first.runs


@pytest.mark.long
def test_a_transfer_is_approved_once(otto: AirflowApi, monitor: Monitor) -> None:
    ((dag, run),) = do(otto, "initiate", "berlin", transfer="files", location="/mnt/disk").runs
    assert waiting(otto, "SHOP_", "berlin") == []
    question = ask(otto, dag, run, "approve")
    assert [one.question.id for one in waiting(otto, "SHOP_", "berlin")] == [question]
    assert waiting(otto, "SHOP_", "oslo") == []
    assert do(otto, "approve", "berlin", question=question, why="carried by train").runs == ((dag, run),)
    answer = otto.get(f"dags/{dag}/dagRuns/{run}/taskInstances/approve/-1/hitlDetails")
    assert answer["chosen_options"] == ["Approve"] and answer["responded_by_user"]["name"] == "otto"
    assert otto.get(f"dags/{dag}/dagRuns/{run}")["note"] == "carried by train"
    with raises_code("nothing-runs", match="waits no more"):
        do(otto, "approve", "berlin", question=question)


def test_of_two_questions_the_named_one_is_answered(otto: AirflowApi, monitor: Monitor) -> None:
    """A failover and a repair ask at once: the answer to the one is none to the other."""
    started = do(otto, "failover", "berlin", action="planned", reverse="on")
    conf = run_of(otto, started)["conf"]
    assert (conf["action"], conf["reverse"], conf["override"]) == ("planned", True, False)
    repair = do(otto, "verify", "berlin")
    failover_asks, repair_asks = (
        ask(otto, *done.runs[0], task) for done, task in ((started, "approve"), (repair, "approve_repair"))
    )
    assert {one.question.id for one in waiting(otto, "SHOP_", "berlin")} == {failover_asks, repair_asks}
    assert do(otto, "approve", "berlin", question=repair_asks, answer="Reject").runs == repair.runs
    assert [one.question.id for one in waiting(otto, "SHOP_", "berlin")] == [failover_asks]
    answer = otto.get(f"dags/resync/dagRuns/{repair.runs[0][1]}/taskInstances/approve_repair/-1/hitlDetails")
    assert answer["chosen_options"] == ["Reject"]


def ask(api: AirflowApi, dag: str, run: str, task: str) -> str:
    """Asks a person as the running task does; returns the question's id."""
    from airflow.models.hitl import HITLDetail
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    id_ = str(api.get(f"dags/{dag}/dagRuns/{run}/taskInstances/{task}")["id"])
    with create_session() as session:
        asking = session.get(TaskInstance, uuid.UUID(id_))
        assert asking is not None
        asking.state = "awaiting_input"
        session.add(
            HITLDetail(ti_id=uuid.UUID(id_), options=["Approve", "Reject"], subject="x", body="x", multiple=False)
        )
    return id_


@pytest.mark.long
def test_an_action_whose_dag_is_paused_says_so_and_starts_nothing(otto: AirflowApi, monitor: Monitor) -> None:
    olga = AirflowApi(monitor.url, "olga", PASSWORD)
    for dag, name, why in (("gate", "hold", "disk"), ("cdc_apply", "restart", "")):
        do(otto, "restart", "berlin")
        pause(olga, dag, paused=True)
        try:
            before = otto.get(f"dags/{dag}/dagRuns")["total_entries"]
            with raises_code("dag-paused", match=f"the DAG {dag} is paused in Airflow.*Unpause it"):
                do(otto, name, "berlin", why=why)
            assert otto.get(f"dags/{dag}/dagRuns")["total_entries"] == before
        finally:
            pause(olga, dag, paused=False)


def pause(api: AirflowApi, dag: str, *, paused: bool) -> None:
    api.call("PATCH", f"dags/{dag}?update_mask=is_paused", {"is_paused": paused})


@pytest.mark.long
def test_the_run_of_a_pair_is_found_among_those_of_many_slaves(
    otto: AirflowApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.operate.api.LISTED", 1)
    first = do(otto, "restart", "berlin")
    for slave in ("oslo", "lima"):
        do(otto, "restart", slave)
    assert do(otto, "restart", "berlin").runs == first.runs


def test_airflow_refuses_actions_of_a_reader(monitor: Monitor) -> None:
    anna = AirflowApi(monitor.url, "anna", PASSWORD)
    for name in ("restart", "hold", "verify"):
        with pytest.raises(ApiRefused) as refused:
            do(anna, name, "berlin")
        assert refused.value.status == 403


def test_a_refusal_of_airflow_is_shown_with_its_message(otto: AirflowApi) -> None:
    with pytest.raises(ApiRefused, match=r"400.*There is no slave nobody\. There are: "):
        do(otto, "restart", "nobody")
    with pytest.raises(Incomplete):
        do(otto, "hold", "berlin", why="")


@pytest.mark.long
def test_a_test_of_notices_is_started_by_the_form_of_the_page(otto: AirflowApi, monitor: Monitor) -> None:
    address = f"{monitor.url}/sluice/actions/send_test"
    with httpx.Client(timeout=60) as visitor:
        visitor.headers["Authorization"] = f"Bearer {monitor.token('olga')}"
        form = visitor.get(address, params={"prefix": "SHOP_"}).text
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))
        done = visitor.post(address, data=fields)
    assert done.status_code == 200 and "started" in done.text, done.text
    ((conf),) = [one["conf"] for one in otto.get("dags/notify/dagRuns")["dag_runs"]]
    assert conf["prefix"] == "SHOP_"
