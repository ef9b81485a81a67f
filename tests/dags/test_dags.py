"""The DAG files: they load with any configuration, and tell a person what is needed."""

import re
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from sluice.airflow import steps_housekeeping
from sluice.airflow.task_context import TaskContext, listed
from sluice.errors import Terminal
from sluice.operate.actions import ACTIONS
from tests.errors import raises_code

ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "dags"
IDS = {
    "install_resources", "reconcile_tables", "initial_update", "cdc_apply", "gate", "rejects", "housekeeping", "resync",
    "failover", "remove_transaction", "uninstall_resources", "capture_redo", "broadcast",
    "notify",
}  # fmt: skip
GOOD = "prefix: {prefix}\nmaster: {{conn_id: m}}\nslaves:\n{slaves}\ntables:\n  public.*: {{}}\n"


@pytest.fixture
def replications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration folder."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    return tmp_path


def configure(folder: Path, prefix: str, *slaves: str) -> None:
    lines = "\n".join(f"  {name}: {{conn_id: {name}}}" for name in slaves)
    (folder / f"{prefix}.yaml").write_text(GOOD.format(prefix=prefix, slaves=lines))


def load() -> DagBag:
    return DagBag(str(DAGS))


@pytest.fixture(scope="module")
def bag() -> DagBag:
    """The DAGs with the configuration of the distribution."""
    return load()


def test_all_dags_load_without_an_error(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert set(bag.dags) == IDS


@pytest.mark.parametrize("file", sorted(DAGS.glob("*.py")), ids=lambda file: file.name)
def test_a_dag_file_is_short_and_holds_no_sql(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") < 60
    assert not re.search(r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE)\b [A-Za-z$*]+ ", text)


def test_parsing_connects_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    import psycopg

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a DAG file connects to something when it is read")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(psycopg, "connect", refuse)
    assert load().import_errors == {}


def test_dags_are_documented_tagged_and_active_at_once(bag: DagBag) -> None:
    for dag in bag.dags.values():
        assert dag.doc_md is not None and dag.doc_md.startswith("# ")
        assert dag.description and not dag.description.startswith("#")
        assert "sluice" in dag.tags
        assert dag.is_paused_upon_creation is False
        assert dag.catchup is False


def test_every_function_task_says_what_it_does(bag: DagBag) -> None:
    for dag in bag.dags.values():
        for task in dag.tasks:
            if type(task).__name__ == "_PythonDecoratedOperator":
                assert task.doc_md, f"{dag.dag_id}.{task.task_id}"


def test_waiting_tasks_have_no_timeout(bag: DagBag) -> None:
    for dag in bag.dags.values():
        assert dag.dagrun_timeout is None
        assert all(task.execution_timeout is None for task in dag.tasks)


def test_tasks_survive_the_death_of_their_worker(bag: DagBag) -> None:
    assert all(task.retries >= 2 for dag in bag.dags.values() for task in dag.tasks)  # type: ignore[operator]


def test_the_initial_update_follows_the_workflow(bag: DagBag) -> None:
    dag = bag.dags["initial_update"]
    order, task = [], next(task for task in dag.tasks if not task.upstream_task_ids)
    while True:
        order.append(task.task_id)
        aside = {"share", "new_tables", "remaining_tables"}
        following = [name for name in task.downstream_task_ids if name not in aside]
        if not following:
            break
        assert len(following) == 1
        task = dag.get_task(following[0])
    assert order == [
        "check", "install_resources", "reconcile", "begin", "create_tables", "plan",
        "make_folder", "ensure_apply", "load", "await_files", "approve", "import_files", "await_normal", "finish",
        "settle",
    ]  # fmt: skip


def test_tables_that_join_are_loaded_in_runs_of_their_own(bag: DagBag) -> None:
    update, reconcile = bag.dags["initial_update"], bag.dags["reconcile_tables"]
    for dag, listing, starting, after in (
        (reconcile, "new_tables", "load_new_tables", "reconcile"),
        (update, "new_tables", "load_new_tables", "reconcile"),
        (update, "remaining_tables", "load_remaining_tables", "finish"),
    ):
        assert dag.get_task(listing).upstream_task_ids == {after}
        assert dag.get_task(starting).upstream_task_ids == {listing} and dag.get_task(starting).is_mapped
    assert not reconcile.get_task("load_new_tables").downstream_task_ids


def test_an_update_of_several_slaves_goes_on_in_a_run_for_each(bag: DagBag) -> None:
    dag = bag.dags["initial_update"]
    assert dag.get_task("share").upstream_task_ids == {"load"}
    assert dag.get_task("each_slave").upstream_task_ids == {"share"}
    assert dag.get_task("each_slave").downstream_task_ids == {"settle"}
    assert dag.get_task("each_slave").is_mapped


def test_a_canceled_update_still_settles_and_counts_as_failed(bag: DagBag) -> None:
    settle = bag.dags["initial_update"].get_task("settle")
    assert settle.is_teardown and settle.on_failure_fail_dagrun
    # A teardown without a setup runs once all before it is over, however.
    assert not any(task.is_setup for task in bag.dags["initial_update"].tasks)


def test_many_pairs_are_applied_at_the_same_time(bag: DagBag) -> None:
    assert bag.dags["cdc_apply"].max_active_runs >= 1000
    assert bag.dags["initial_update"].max_active_runs >= 16
    assert bag.dags["housekeeping"].max_active_runs == 1


def test_params_are_those_of_the_contract(bag: DagBag) -> None:
    found = {dag_id: set(dag.params) for dag_id, dag in bag.dags.items()}
    assert found == {
        "install_resources": {"prefix"},
        "reconcile_tables": {"prefix", "debug"},
        "initial_update": {
            "prefix",
            "slave",
            "transfer",
            "location",
            "read",
            "tables",
            "where",
            "key_from",
            "key_to",
        },
        "cdc_apply": {"prefix", "slave"},
        "capture_redo": {"prefix"},
        "gate": {"prefix", "slave", "action", "reason"},
        "failover": {"prefix", "slave", "action", "reverse", "sample", "sequence_gap", "override"},
        "rejects": {"prefix", "slave", "action", "ids", "force"},
        "housekeeping": set(),
        "resync": {"prefix", "slave", "action", "sample", "tables"},
        "remove_transaction": {"prefix", "slave", "which", "reason"},
        "uninstall_resources": {"prefix", "confirm"},
        "broadcast": {"prefix", "statement", "slaves", "seconds"},
        "notify": {"prefix"},
    }


def test_forms_offer_what_is_configured(replications: Path) -> None:
    configure(replications, "DEMO_", "dr1", "dr2")
    configure(replications, "SALES_", "dr2")
    params = load().dags["cdc_apply"].params
    prefix, slave = params.get_param("prefix"), params.get_param("slave")
    assert prefix.schema["enum"] == ["DEMO_", "SALES_"]
    assert slave.schema["values_display"] == {"dr1": "dr1 (of DEMO_)", "dr2": "dr2 (of DEMO_, SALES_)"}
    assert not prefix.has_value and not slave.has_value, "among several a person chooses"


def test_a_single_choice_is_preselected_and_others_are_refused_with_the_valid_ones(replications: Path) -> None:
    configure(replications, "DEMO_", "dr1")
    params = load().dags["cdc_apply"].params
    assert params.dump() == {"prefix": "DEMO_", "slave": "dr1"}
    with pytest.raises(ParamValidationError, match=r"'NOPE_' is not one of \['DEMO_'\]"):
        params.get_param("prefix").resolve("NOPE_")


def test_every_form_can_be_submitted_unchanged(replications: Path) -> None:
    configure(replications, "DEMO_", "dr1")
    for dag in load().dags.values():
        for name, param in dag.params.items():
            field = dag.params.get_param(name)
            # What Airflow's form asks of a field before it lets a run start.
            assert "null" in field.schema["type"] or param not in ("", None), f"{dag.dag_id}: {name}"


def test_a_form_says_what_the_monitor_says(replications: Path) -> None:
    configure(replications, "DEMO_", "dr1")
    dags = load().dags
    for dag_id, name in (
        ("failover", "override"),
        ("rejects", "ids"),
        ("resync", "tables"),
        ("reconcile_tables", "debug"),
    ):
        fields = [one for action in ACTIONS.values() if action.dag == dag_id for one in action.fields]
        field = next(one for one in fields if name in (one.name, one.param))
        schema = dags[dag_id].params.get_param(name).schema
        assert (schema["title"], schema["description_md"].replace("\\", "")) == (field.label, field.hint)
    # Without tables a comparison takes those of the configuration, also one that the monitor started.
    assert all("verify.tables" in one.hint for one in ACTIONS["repair"].fields + ACTIONS["verify"].fields[:1])


def test_texts_of_forms_are_shown_as_plain_text(replications: Path) -> None:
    configure(replications, "DEMO_", "dr1")
    for dag in load().dags.values():
        for name in dag.params:
            schema = dag.params.get_param(name).schema
            assert "`" not in schema.get("description_md", ""), f"{dag.dag_id}: {name}"
            assert None not in schema.get("enum", ()) or "null" in schema["values_display"], f"{dag.dag_id}: {name}"


def test_a_mistake_disables_only_its_own_replication(replications: Path) -> None:
    configure(replications, "DEMO_", "dr1")
    (replications / "BAD.yaml").write_text("prefix: BAD_\nmaster: {conn_id: m}\nslavs: {}\n")
    bag = load()
    assert set(bag.dags) == IDS
    assert bag.dags["cdc_apply"].params.get_param("prefix").schema["enum"] == ["DEMO_"]
    (message,) = bag.import_errors.values()
    assert "BAD.yaml:3: slavs: is not known" in message
    assert "did you mean slaves?" in message
    assert all("BAD.yaml:3: slavs" in (dag.doc_md or "") for dag in bag.dags.values())


def test_without_any_configuration_dags_load_and_say_so(replications: Path) -> None:
    bag = load()
    assert set(bag.dags) == IDS
    assert bag.import_errors == {}
    assert "No replication is configured" in bag.dags["cdc_apply"].params.get_param("prefix").schema["description_md"]


def test_without_the_configuration_folder_dags_load_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_REPLICATIONS", "/nowhere/at/all")
    bag = load()
    assert set(bag.dags) == IDS
    assert any("/nowhere/at/all" in message for message in bag.import_errors.values())


def test_the_form_of_an_update_takes_a_list_of_slaves(replications: Path) -> None:
    configure(replications, "DEMO_", "dr1", "dr2")
    slave = load().dags["initial_update"].params.get_param("slave")
    assert slave.schema["examples"] == ["dr1", "dr2", "dr1,dr2"]
    assert slave.resolve("dr2, dr1") == "dr2, dr1"
    for wrong in ("dr9", "dr1,dr9", "dr11", "dr1;dr2"):
        with pytest.raises(ParamValidationError, match=f"{wrong}' does not match .*dr1"):
            slave.resolve(wrong)
    assert listed("dr2, dr1,,dr2 ") == listed(["dr2", "dr1"]) == ("dr2", "dr1")
    assert listed(None) == ()


def test_the_scheduler_knows_when_each_replication_is_compared(replications: Path) -> None:
    """By what Airflow's scheduler reads from its database: the serialized DAG."""
    from airflow.sdk import DAG
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.timetables.base import TimeRestriction

    configure(replications, "A_", "a")
    configure(replications, "B_", "b")
    with (replications / "B_.yaml").open("a") as file:
        file.write('verify: {at: "23:30", zone: Asia/Tokyo}\n')
    dag = load().dags["resync"]
    assert isinstance(dag, DAG)
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert read.timetable.summary == "03:00 UTC, 23:30 Asia/Tokyo"
    following = read.timetable.next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(None, None, False)
    )
    assert following is not None
    assert (following.run_after.hour, following.run_after.minute) in {(3, 0), (14, 30)}


@pytest.mark.parametrize(("end", "due"), [("03:00", "A_"), ("14:30", "B_")])
def test_a_scheduled_run_compares_those_whose_time_it_is(
    end: str, due: str, replications: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice.airflow import steps_resync

    configure(replications, "A_", "a")
    configure(replications, "B_", "b")
    with (replications / "B_.yaml").open("a") as file:
        file.write('verify: {at: "23:30", zone: Asia/Tokyo}\n')
    until = datetime.fromisoformat(f"2026-11-26T{end}+00:00")
    run = SimpleNamespace(run_type="scheduled", data_interval_start=until - timedelta(hours=1), data_interval_end=until)
    params = {"prefix": None, "slave": None, "tables": None, "action": None, "sample": None}
    context = {"dag_run": run, "params": params, "dag": SimpleNamespace(dag_id="resync"), "ti": SimpleNamespace()}
    monkeypatch.setattr(steps_resync, "get_current_context", lambda: context)
    # No server answers to these connections, so each pair is named with the reason.
    entries = steps_resync.due.function()
    assert {entry["prefix"] for entry in entries} == {due}


def test_applies_come_first_in_airflows_queue_and_housekeeping_last(bag: DagBag) -> None:
    weights = {name: {task.priority_weight for task in dag.tasks} for name, dag in bag.dags.items()}
    assert {str(task.weight_rule) for dag in bag.dags.values() for task in dag.tasks} == {"absolute"}
    (first,), (last,) = weights["cdc_apply"], weights["housekeeping"]
    others = {
        weight for name, of_dag in weights.items() if name not in ("cdc_apply", "housekeeping") for weight in of_dag
    }
    assert last < min(others) <= max(others) < first


def test_housekeeping_of_many_replications_is_few_tasks_and_one_that_fails_keeps_no_other_waiting() -> None:
    prefixes = [f"P{number}_" for number in range(300)]
    groups = steps_housekeeping.groups(prefixes)
    assert len(groups) == steps_housekeeping.GROUPS
    assert sorted(prefix for group in groups for prefix in group) == sorted(prefixes)
    assert max(map(len, groups)) - min(map(len, groups)) <= 1
    assert steps_housekeeping.groups(prefixes[:3]) == [[prefix] for prefix in prefixes[:3]]
    assert steps_housekeeping.groups([]) == []


def test_each_replication_of_a_group_is_looked_after(
    replications: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for prefix in ("A_", "B_", "C_"):
        configure(replications, prefix, "a")
    seen: list[str] = []

    def body(task: TaskContext) -> str:
        seen.append(str(task.prefix))
        if str(task.prefix) in failing:
            raise Terminal(f"{task.prefix} fails")
        return "done"

    failing = {"A_"}
    with pytest.raises(Terminal, match="A_ fails"):
        steps_housekeeping.each_alone(body, ["A_", "B_", "C_"], {})
    assert seen == ["A_", "B_", "C_"]
    failing = {"A_", "B_"}
    with raises_code("replications-failed", match="2 replications failed: A_ fails; B_ fails"):
        steps_housekeeping.each_alone(body, ["A_", "B_", "C_"], {})
    failing = set()
    assert steps_housekeeping.each_alone(body, ["A_", "C_"], {}) == {"A_": "done", "C_": "done"}
    # A file that was removed since the run began.
    with pytest.raises(Terminal, match="GONE_"):
        steps_housekeeping.each_alone(body, ["GONE_", "B_"], {})
    assert seen[-1] == "B_"
