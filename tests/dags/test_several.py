"""The tasks of an initial update of several slaves, on real databases, with a stand-in for Airflow."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from sluice.airflow import multi_slave, transfer_form
from sluice.airflow.approval import ApproveTransfer
from sluice.airflow.await_normal import AwaitNormal
from sluice.airflow.job_operator import ImportOperator, LoadOperator
from sluice.airflow.multi_slave import EachSlave, share
from sluice.airflow.selection_form import update_of
from sluice.airflow.steps_master import check, install_resources, reconcile
from sluice.airflow.steps_update import begin, make_folder, settle
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.records import Status
from sluice.errors import Transient
from sluice.load.transfer import transfer_steps
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow
from tests.dags.walk import RUN, Walk
from tests.errors import raises_code

NOWHERE = json.dumps({"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "x", "login": "x"})


@pytest.fixture
def slaves(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, ConnectionInfo]:
    infos = {name: database() for name in ("m", "one", "two", "three")}
    for name, info in infos.items():
        connect_airflow(monkeypatch, name, info)
    (tmp_path / "conf").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "conf" / "DEMO.yaml").write_text(
        "prefix: DEMO_\nmaster: {conn_id: m, allow_superuser: true}\n"
        "slaves: {one: {conn_id: one, allow_superuser: true}, two: {conn_id: two, allow_superuser: true}, three: "
        "{conn_id: three, existing_tables: refuse, allow_superuser: true}}\ntables:\n  public.*: {}\n"
        f"initial: {{locations: [{tmp_path}/out]}}\n"
    )
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path / "conf"))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    with connect(infos["m"], application="test", autocommit=True) as master:
        master.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
        master.execute("INSERT INTO public.t SELECT pg_catalog.generate_series(1, 100)")
    with connect(infos["three"], application="test", autocommit=True) as three:
        three.execute("CREATE TABLE public.t (id int PRIMARY KEY)")
    return infos


def found(info: ConnectionInfo, name: str) -> tuple[SlaveState, str]:
    with connect(info, application="test", autocommit=True) as connection:
        checkpoint = CheckpointStore(connection, Prefix("DEMO_"), "sluice", name).read()
    assert checkpoint is not None
    return checkpoint.state, checkpoint.message


@pytest.mark.long
def test_one_run_exports_and_each_slave_goes_on_in_its_own(slaves: dict[str, ConnectionInfo], tmp_path: Path) -> None:
    walk = Walk(slave="one, two,three", location=str(tmp_path / "out"))
    walk.prepare()
    # One slave refuses tables that it has: it is left out, and says why.
    assert multi_slave.members(walk.context) == ["one", "two"]
    state, message = found(slaves["three"], "three")
    assert state is SlaveState.INCONSISTENT
    assert "Initial Update failed in create_tables" in message and "existing_tables: refuse" in message
    walk.export()
    for task in (ApproveTransfer(task_id="a"), ImportOperator(task_id="i"), AwaitNormal(task_id="w")):
        with pytest.raises(AirflowSkipException):
            task.execute(walk.context)
    runs = walk.do(share, "share")
    assert [run["trigger_run_id"] for run in runs] == [f"{RUN}~one", f"{RUN}~two"]
    (folder,) = (tmp_path / "out").iterdir()
    for run, name in zip(runs, ("one", "two"), strict=True):
        assert found(slaves[name], name) == (SlaveState.TRANSITION, transfer_steps.WAITING.format(folder))
        # Its own run finds all of it done, and stands before the approval.
        own = Walk(**run["conf"])
        own.ti.run_id = run["trigger_run_id"]
        assert own.do(begin, "begin") == "gone on"
        own.prepare()
        assert transfer_form.written(own.context).path == str(folder)
        assert LoadOperator(task_id="load").execute(own.context) == f"exported by run {RUN}"
        assert own.do(share, "share") == []
        assert ApproveTransfer(task_id="approve")._examine(own.work, "log") is None
        assert transfer_steps.left_to_import(update_of(own.work)) == 1
    walk.ti.states = {"begin": "success", "each_slave_0": "success", "each_slave_1": "failed", "finish": "skipped"}
    with raises_code("slaves-incomplete") as missing:
        settle.body(walk.context)
    assert "; three: " in str(missing.value)
    assert f"its run {RUN}~two ended in failed" in str(missing.value)
    assert found(slaves["one"], "one")[0] is SlaveState.TRANSITION, "its own run settles it"


@pytest.mark.long
def test_a_run_that_fails_before_the_folder_is_complete_makes_every_slave_inconsistent(
    slaves: dict[str, ConnectionInfo], tmp_path: Path
) -> None:
    walk = Walk(slave="one,two", location=str(tmp_path / "out"))
    walk.prepare()
    walk.ti.kept["load", "sluice"] = None
    walk.ti.states = {"begin": "success", "load": "failed", "finish": "upstream_failed"}
    with raises_code("slaves-incomplete"):
        settle.body(walk.context)
    for name in ("one", "two"):
        state, message = found(slaves[name], name)
        assert state is SlaveState.INCONSISTENT and "load" in message


def test_a_list_that_one_run_cannot_load_is_refused(
    slaves: dict[str, ConnectionInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with raises_code("not-for-several-slaves", match="choose read committed, or transfer files"):
        Walk(slave="one,two", transfer="online", read="snapshot").do(check, "check")
    with raises_code("not-for-several-slaves", match="choose no tables"):
        Walk(slave="one,two", location=str(tmp_path / "out"), tables=["public.t"]).do(check, "check")
    walk = Walk(slave="one,two", location=str(tmp_path / "out"))
    walk.ti.try_number = multi_slave.TRIES
    for task, name in ((install_resources, "install_resources"), (reconcile, "reconcile")):
        walk.do(task, name)
    for name in ("ONE", "TWO"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", NOWHERE)
    with raises_code("no-slave-left", match=r"No slave is left: one: .*two: "):
        walk.do(begin, "begin")


def said(walk: Walk, name: str) -> str:
    """The message of a slave on pages and in `./sluice status`."""
    return str(Status(walk.work.redis, Prefix("DEMO_"), name).read().get("message", ""))


@pytest.mark.long
def test_an_unreachable_slave_of_an_online_update_is_awaited_by_its_own_run(
    slaves: dict[str, ConnectionInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk(slave="one,two", transfer="online")
    walk.ti.try_number = multi_slave.TRIES
    with monkeypatch.context() as down:
        down.setenv("AIRFLOW_CONN_TWO", NOWHERE)
        walk.prepare()
        assert (multi_slave.members(walk.context), multi_slave.awaited(walk.context)) == (["one"], ["two"])
        assert said(walk, "two").startswith(f"Initial update {RUN} waits: ")
        assert [run["trigger_run_id"] for run in walk.do(share, "share")] == [f"{RUN}~one", f"{RUN}~two"]
        own = Walk(**walk.do(share, "share")[1]["conf"])
        own.ti.run_id = f"{RUN}~two"
        own.do(check, "check")
        with pytest.raises(Transient):
            own.do(begin, "begin")
        assert said(own, "two").startswith(f"Initial update {RUN} waits: slave two does not answer: ")
        # It can be canceled meanwhile: nothing waits any more, nothing was touched.
        own.ti.states = {"check": "success", "begin": "failed"}
        with raises_code("update-not-begun"):
            settle.body(own.context)
        assert said(own, "two") == ""
        own.do(check, "check")
    own.prepare()
    assert own.ti.kept["begin", "return_value"] == "begun" and "waits" not in said(own, "two")
    assert found(slaves["two"], "two")[0] is SlaveState.TRANSITION
    # All of them: the run of the list waits.
    for name in ("ONE", "TWO"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", NOWHERE)
    again = Walk(slave="one,two", transfer="online")
    again.ti.try_number = multi_slave.TRIES
    with raises_code("no-slave-reachable", match="one, two"):
        again.do(begin, "begin")


@pytest.mark.long
def test_files_go_only_where_the_configuration_allows(slaves: dict[str, ConnectionInfo], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path / "elsewhere")
    for text in (tmp_path / "elsewhere", tmp_path / "out" / "link", "s3://bucket/out"):
        walk = Walk(slave="one", location=str(text))
        for task, name in ((check, "check"), (make_folder, "make_folder")):
            with raises_code("location-not-allowed", match=r"is not allowed by .*DEMO\.yaml"):
                walk.do(task, name)
    # Nor may a run that continues with what another one has begun read its files from anywhere.
    with raises_code("location-not-allowed"):
        Walk(slave="one", location=str(tmp_path / "elsewhere"), update=RUN).do(make_folder, "make_folder")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_failed_run_of_a_slave_is_not_awaited_again() -> None:
    task = EachSlave(task_id="each_slave", trigger_run_id="x", conf={})
    with pytest.raises(AirflowFailException, match="failed with failed states"):
        task.execute_complete({}, ("DagStateTrigger", {"run_ids": ["x"], "x": "failed"}))
    task.execute_complete({}, ("DagStateTrigger", {"run_ids": ["x"], "x": "success"}))
