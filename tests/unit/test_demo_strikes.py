"""The demo kills the processes of jobs, each only after it is back; failures are explained."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devstack.demo import strikes
from devstack.demo.course import slave_names
from devstack.demo.events import Events
from devstack.demo.start import write
from devstack.demo.strikes import Killer, Strike, Victim
from devstack.process import ProcessId, await_true
from sluice import config
from sluice.cli.airflow_api import ApiRefused
from sluice.cli.initial_update import InitialUpdate, RunState, together
from tests.rig.loaders import Background
from workload.faults.drivers import driver_of

RUNNER = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)', 'spark_jobs.apply'])"
)


@pytest.fixture
def runner() -> Iterator[ProcessId]:
    """A process that leads a session with a child whose command names a Spark job."""
    child = subprocess.Popen([sys.executable, "-c", RUNNER], start_new_session=True)
    identity = ProcessId.of(child.pid)
    assert identity is not None
    assert await_true(lambda: driver_of(child.pid) is not None, 10)
    yield identity
    if target := driver_of(child.pid):
        target.send(signal.SIGKILL)
    child.kill()
    child.wait()


def test_the_driver_is_killed_and_not_its_runner(runner: ProcessId) -> None:
    target = driver_of(runner.pid)
    assert target is not None and target != runner


class FakeStack:
    """Records the kills; a service is back when the test says so."""

    def __init__(self) -> None:
        self.killed: list[str] = []
        self.back: set[str] = set()

    def kill(self, service: str) -> ProcessId:
        self.killed.append(service)
        return ProcessId(1, 1.0)

    def runs(self, service: str, after: ProcessId | None = None) -> bool:
        return service in self.back


def killer_of(stack: FakeStack, events: Events) -> Killer:
    return Killer(stack, lambda: ["dr1"], lambda slave: False, lambda slave, at: True, 1, events)  # type: ignore[arg-type]


def test_strikes_follow_the_plan_and_recoveries_are_reported() -> None:
    stack, events = FakeStack(), Events()
    stack.back = {"master", "slave-dr1", "redis", "airflow-scheduler"}
    killer = killer_of(stack, events)
    plan = [
        Strike(0.0, Victim.MASTER),
        Strike(0.01, Victim.SLAVE),
        Strike(0, Victim.AIRFLOW, "scheduler"),
        Strike(0, Victim.REDIS),
    ]
    killer.run(plan, lambda: True)
    assert stack.killed == ["master", "slave-dr1", "airflow-scheduler", "redis"]
    texts = [event.text for event in events.recent(50)]
    assert [text for text in texts if text.startswith("kill -9")] == [f"kill -9 {name}" for name in stack.killed]
    assert sum("is back after" in text for text in texts) == 4
    assert (killer.kills, killer.problems) == (4, [])


def test_nothing_is_killed_again_before_it_is_back() -> None:
    stack, events = FakeStack(), Events()
    killer = killer_of(stack, events)
    killer.strike(Strike(0, Victim.REDIS))
    stack.back.add("redis")
    killer.run([Strike(0, Victim.REDIS)], lambda: True)
    texts = [event.text for event in events.recent(50)]
    assert texts[0] == "kill -9 redis" and texts[1].startswith("redis is back") and texts[2] == "kill -9 redis"


def test_a_victim_that_does_not_come_back_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strikes, "RECOVERY", 0.2)
    stack, events = FakeStack(), Events()
    killer = killer_of(stack, events)
    killer.run([Strike(0, Victim.MASTER)], lambda: True)
    assert killer.problems == ["master was killed, and is not back after 0 s"]


def test_a_job_that_does_not_run_is_not_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strikes, "START", 0.1)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    events = Events()
    killer = killer_of(FakeStack(), events)
    killer.strike(Strike(0, Victim.LOAD))
    killer.strike(Strike(0, Victim.LOAD))
    assert killer.kills == 0
    assert "nothing to kill" in events.recent(1)[0].text


def test_strikes_end_when_the_scene_does() -> None:
    stack = FakeStack()
    assert (
        Background(lambda: killer_of(stack, Events()).run([Strike(3600.0, Victim.MASTER)], lambda: False)).end() is None
    )
    assert stack.killed == []


class FakeApi:
    url = "http://127.0.0.1:1"

    def run_state(self, dag: str, run_id: str) -> str:
        if run_id == "list~dr1":
            raise ApiRefused("GET", self.url, 404, "{}")
        return {"list~dr2": "success", "list~dr3": "failed"}[run_id]

    def get(self, path: str, **query: Any) -> Any:
        return {
            "task_instances": [
                {"task_id": "check", "state": "success", "try_number": 1, "map_index": -1},
                {"task_id": "plan", "state": "failed", "try_number": 2, "map_index": -1},
                {"task_id": "load", "state": "upstream_failed", "try_number": 0, "map_index": -1},
            ]
        }

    def task_log(self, dag: str, run_id: str, task: str, attempt: int, map_index: int) -> str:
        assert (dag, task, attempt) == ("initial_update", "plan", 2) and run_id in ("run 1", "list~dr3")
        return "\n".join(["line"] * 50 + ["The master is down. Start it, then clear the task."])


def test_a_failed_initial_update_is_explained_by_its_tasks_log() -> None:
    update = InitialUpdate(FakeApi(), ["dr1"], "DEMO_")  # type: ignore[arg-type]
    assert update.failure() is None
    update.run_id = "run 1"
    update.latest = RunState("failed")
    message = str(update.failure())
    assert "initial_update of dr1 failed in its task 'plan'" in message
    assert "The master is down. Start it, then clear the task." in message
    assert message.count("line") <= 16
    assert "http://127.0.0.1:1/dags/initial_update/runs/run 1" in message


def test_the_failed_run_of_several_slaves_explains_it() -> None:
    update = InitialUpdate(FakeApi(), ["dr1", "dr2", "dr3"], "DEMO_")  # type: ignore[arg-type]
    update.run_id, update.latest = "list", RunState("failed")
    assert "initial_update/runs/list~dr3" in str(update.failure())


@pytest.mark.parametrize(("read", "runs"), [("committed", [["dr1", "dr2"]]), ("snapshot", [["dr1"], ["dr2"]])])
def test_slaves_are_loaded_by_one_run_that_reads_the_master_once_unless_in_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str, runs: list[list[str]]
) -> None:
    write(tmp_path, ["dr1", "dr2"])
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    found = config.load("DEMO_")
    found = replace(found, initial=replace(found.initial, read=read))
    assert together(found, ["dr1", "dr2"]) == runs
    assert together(found, []) == []


def test_the_configuration_of_a_demo_is_valid_and_names_its_slaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["dr1", "dr2"])
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    replication = config.load("DEMO_")
    assert {name: slave.conn_id for name, slave in replication.slaves.items()} == {"dr1": "demo_dr1", "dr2": "demo_dr2"}
    assert replication.master.conn_id == "demo_master"


def test_a_slave_that_is_a_mariadb_is_named_after_itself_and_joins_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slave_names(3, "postgres") == ["dr1", "dr2", "dr3"]
    assert slave_names(2, "mariadb") == ["mariadb", "dr1"]
    write(tmp_path, slave_names(2, "mariadb"))
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    slaves = config.load("DEMO_").slaves
    assert {name: (slave.vendor, slave.conn_id) for name, slave in slaves.items()} == {
        "mariadb": ("mysql", "demo_mariadb"), "dr1": ("postgres", "demo_dr1"),
    }  # fmt: skip
    assert slaves["mariadb"].lossy_columns and not slaves["dr1"].lossy_columns
