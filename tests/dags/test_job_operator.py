"""The tasks that keep a job running: when they launch, join, replace or leave one. Real processes, without Airflow."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from sluice.airflow import definition_comparison, job_operator, jobs, state_paths
from sluice.airflow.apply_operator import ApplyOperator
from sluice.airflow.job import Job, JobState, Kind
from sluice.airflow.job_operator import LoadOperator, SparkJobOperator
from sluice.airflow.job_trigger import JobTrigger
from sluice.airflow.steps_housekeeping import end_orphans, forget_jobs, unwatched_applies
from sluice.coordination import redis_store
from sluice.coordination.apply_query import ApplyQuery, QueryRecord
from sluice.coordination.redis_store import StoreUnreachable
from sluice.errors import Terminal
from tests.waiting import awaited


class FakePayload(SparkJobOperator):
    """Launches the tests' driver, which sleeps."""

    def payload(self, *_: Any) -> dict[str, Any]:
        return {"sleep": 60}

    def before_launch(self, *_: Any) -> None:
        return


class Apply(FakePayload, ApplyOperator):
    """The operator as in cdc_apply."""


class Load(FakePayload, LoadOperator):
    """The operator as in initial_update."""


class Store(dict[str, Any]):
    """A task's state store."""

    def set(self, key: str, value: Any, retention: Any = None) -> None:
        self[key] = value


@pytest.fixture(autouse=True)
def active_runs(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The active runs, as Airflow would report them. There is no endpoint of Spark: an apply is a process."""
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    monkeypatch.setattr("sluice.airflow.connections.spark", dict)
    runs: set[str] = {"run1"}
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(jobs, "MODULE", "tests.unit.fake_job")
    (tmp_path / "DEMO.yaml").write_text(
        "prefix: DEMO_\nmaster: {conn_id: m}\nslaves:\n  dr1: {conn_id: s}\ntables:\n  public.*: {}\n"
    )
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setattr(job_operator, "is_active", lambda owner: owner.run_id in runs)
    monkeypatch.setattr("sluice.airflow.steps_housekeeping.is_active", lambda owner: owner.run_id in runs)
    monkeypatch.setattr("sluice.airflow.steps_housekeeping.is_known", lambda owner: True)
    yield runs
    for job in jobs.all_jobs():
        job.runner.send(signal.SIGKILL)
        awaited(lambda job=job: not job.runner.alive())
        job.kill_leftovers()


def context(run: str = "run1", try_number: int = 1, max_tries: int = 10) -> dict[str, Any]:
    ti = SimpleNamespace(
        dag_id="cdc_apply", run_id=run, task_id="apply", try_number=try_number, max_tries=max_tries,
        xcom_push=lambda **_: None,
    )  # fmt: skip
    params = {"prefix": "demo_", "slave": "dr1"}
    return {"ti": ti, "run_id": run, "params": params, "task_state_store": Store()}


def begin(operator: type[FakePayload] = Apply, **values: Any) -> Job:
    """Runs the task until it defers, and returns the job that it watches."""
    given = context(**values)
    with pytest.raises(TaskDeferred) as raised:
        operator(task_id="apply", prefix="demo_", slave="dr1").execute(given)
    trigger = raised.value.trigger
    assert isinstance(trigger, JobTrigger) and trigger.earliest > time.time()
    assert given["task_state_store"]["job"] == trigger.job_id
    return watched(trigger.job_id)


def watched(job_id: str) -> Job:
    job = Job.read(job_id)
    assert job is not None
    return job


def test_the_first_try_launches_a_job_and_waits_without_a_worker() -> None:
    job = begin()
    assert job.state() is JobState.RUNNING
    assert (job.kind, job.prefix, job.slave, job.owner.run_id) == (Kind.APPLY, "DEMO_", "dr1", "run1")


def test_a_retry_goes_on_with_the_job_that_runs() -> None:
    first = begin()
    second = begin(try_number=2)
    assert second.id == first.id
    assert second.owner.try_number == 2


def test_a_cleared_task_waits_for_the_end_of_its_job_and_launches_another() -> None:
    first = begin()
    second = begin(try_number=2, max_tries=11)
    assert second.id != first.id
    assert first.state() is JobState.ENDED
    assert second.state() is JobState.RUNNING


def test_a_dying_job_is_replaced_not_joined() -> None:
    first = begin()
    first.stop("anna", "maintenance")
    second = begin(try_number=2)
    assert second.id != first.id and first.state() is JobState.ENDED


def test_a_second_run_leaves_the_job_to_the_first_and_says_so() -> None:
    job = begin()
    with pytest.raises(AirflowSkipException, match=f"already being applied by run run1 of cdc_apply, job {job.id}"):
        Apply(task_id="apply", prefix="DEMO_", slave="dr1").execute(context("run2"))
    assert job.state() is JobState.RUNNING


def test_an_apply_whose_run_is_over_is_adopted(active_runs: set[str]) -> None:
    first = begin()
    active_runs.clear()
    second = begin(run="run2")
    assert second.id == first.id
    assert watched(first.id).owner.run_id == "run2"


def test_a_load_is_replaced_if_its_run_is_over_and_kept_if_it_goes_on(
    active_runs: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    first = begin(Load)
    with pytest.raises(AirflowFailException):
        Load(task_id="load", prefix="DEMO_", slave="dr1").execute(context("run2"))
    assert "is being loaded by run run1" in caplog.text
    active_runs.clear()
    second = begin(Load, run="run2")
    assert second.id != first.id and first.state() is JobState.ENDED


def test_a_lost_job_is_cleared_away_and_launched_again_with_its_attempt_counted() -> None:
    first = begin()
    os.kill(first.runner.pid, signal.SIGKILL)
    awaited(lambda: first.state() is JobState.LOST)
    event = {"job_id": first.id, "next": "relaunch", "why": "It is gone.", "attempt": 3}
    with pytest.raises(TaskDeferred) as raised:
        Apply(task_id="apply", prefix="DEMO_", slave="dr1").resume(context(), event)
    second = watched(raised.value.trigger.job_id)
    assert second.id != first.id and second.attempt == 3


@pytest.mark.parametrize("failure", [None, OSError("no Redis"), Terminal("no such table")])
def test_a_job_that_asks_for_a_comparison_is_watched_again_whatever_comes_of_it(
    failure: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[str, list[str]]] = []

    def compare(work: Any, slaves: list[str]) -> None:
        compared.append((str(work.prefix), slaves))
        if failure is not None:
            raise failure

    monkeypatch.setattr(definition_comparison, "compare_and_notify", compare)
    job = begin()
    event = {"job_id": job.id, "next": "tell", "why": "it asks", "attempt": 2}
    with pytest.raises(TaskDeferred) as raised:
        Apply(task_id="apply", prefix="DEMO_", slave="dr1").resume(context(), event)
    assert raised.value.trigger.job_id == job.id and job.state() is JobState.RUNNING
    assert compared == [("DEMO_", ["dr1"])]


def test_a_job_that_ends_during_a_comparison_is_judged_by_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = begin()

    def compare(*_: object) -> None:
        job.runner.send(signal.SIGKILL)
        awaited(lambda: job.state() is not JobState.RUNNING)

    monkeypatch.setattr(definition_comparison, "compare_and_notify", compare)
    event = {"job_id": job.id, "next": "tell", "why": "it asks", "attempt": 2}
    with pytest.raises(TaskDeferred) as raised:
        Apply(task_id="apply", prefix="DEMO_", slave="dr1").resume(context(), event)
    assert raised.value.trigger.job_id == job.id, "no other job was launched"


def test_a_job_that_needs_a_person_fails_the_task_with_its_words(caplog: pytest.LogCaptureFixture) -> None:
    event = {"job_id": "apply-x", "next": "fail", "why": "Add column c to a.b.", "attempt": 0}
    with pytest.raises(AirflowFailException):
        Apply(task_id="apply", prefix="DEMO_", slave="dr1").resume(context(), event)
    assert "Add column c to a.b. (job apply-x)" in caplog.text


def test_a_finished_load_ends_its_task() -> None:
    event = {"job_id": "load-x", "next": "finish", "why": "loaded: 5 rows", "attempt": 0}
    assert Load(task_id="load", prefix="DEMO_", slave="dr1").resume(context(), event) == "loaded: 5 rows"


def test_a_pair_that_does_not_exist_is_explained_and_nothing_is_launched(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(AirflowFailException):
        Apply(task_id="apply", prefix="DEMO_", slave="dr9").execute(context())
    assert "has no slave 'dr9'; it has dr1" in caplog.text
    assert jobs.all_jobs() == []


def test_two_runs_at_the_same_moment_launch_one_job(active_runs: set[str]) -> None:
    import concurrent.futures

    active_runs |= {f"run{number}" for number in range(8)}

    def start(number: int) -> str:
        try:
            Apply(task_id=f"apply{number}", prefix="DEMO_", slave="dr1").execute(context(f"run{number}"))
        except TaskDeferred:
            return "watches"
        except AirflowSkipException:
            return "skipped"
        return "ended"

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(start, range(8)))
    assert sorted(ends) == ["skipped"] * 7 + ["watches"]
    assert len(jobs.all_jobs()) == 1


def test_a_person_who_ends_the_task_before_it_defers_ends_the_job() -> None:
    operator = Apply(task_id="apply", prefix="DEMO_", slave="dr1")
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(context())
    operator.on_kill()
    job = watched(raised.value.trigger.job_id)
    awaited(lambda: job.state() is JobState.ENDED)


def test_housekeeping_ends_jobs_whose_run_is_over(active_runs: set[str]) -> None:
    job = begin()
    assert end_orphans.function() == 0
    active_runs.clear()
    assert end_orphans.function() == 1
    awaited(lambda: job.state() is JobState.ENDED)


def test_an_apply_goes_on_and_is_adopted_when_airflow_has_lost_its_metadata(
    active_runs: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begin()
    active_runs.clear()
    assert unwatched_applies.function() == [], "its run is known"
    monkeypatch.setattr("sluice.airflow.steps_housekeeping.is_known", lambda _: False)
    assert end_orphans.function() == 0
    assert unwatched_applies.function() == [{"prefix": "DEMO_", "slave": "dr1"}]
    active_runs.add("run2")
    adopted = begin(run="run2")
    assert (adopted.id, adopted.owner.run_id, adopted.state()) == (job.id, "run2", JobState.RUNNING)
    adopted.stop("anna", "x")
    assert unwatched_applies.function() == []


@pytest.mark.parametrize("known", [True, False])
def test_a_load_ends_with_its_run_though_airflow_has_lost_its_metadata(
    known: bool, active_runs: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begin(Load)
    active_runs.clear()
    monkeypatch.setattr("sluice.airflow.steps_housekeeping.is_known", lambda _: known)
    assert end_orphans.function() == 1
    awaited(lambda: job.state() is JobState.ENDED)


@pytest.mark.parametrize(("slave", "known"), [("dr1", True), ("dr1", False), ("gone", True), ("gone", False)])
def test_housekeeping_ends_queries_whose_run_is_over_also_of_slaves_that_are_gone(
    slave: str, known: bool, redis_url: str, active_runs: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that this Airflow does not know may be another one's, or was lost with the metadata."""
    client = redis_store.connect(redis_url)
    noted = ApplyQuery(client, "DEMO_", slave)
    noted.write(QueryRecord("query1", asdict(job_operator.owner_of(context()["ti"])), time.time(), "session", "spark"))
    monkeypatch.setattr("sluice.airflow.steps_housekeeping.is_known", lambda _: known)
    try:
        assert end_orphans.function() == 0
        active_runs.clear()
        ends = known
        assert end_orphans.function() == ends
        assert unwatched_applies.function() == (
            [{"prefix": "DEMO_", "slave": "dr1"}] if slave == "dr1" and not known else []
        )
        assert (noted.state().stop is not None) == ends
        assert end_orphans.function() == 0
    finally:
        client.delete(noted.key)


@pytest.mark.parametrize("step", ["state", "request_stop"])
def test_housekeeping_ends_jobs_also_if_redis_goes_away(
    step: str, redis_url: str, active_runs: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begin()
    noted = ApplyQuery(redis_store.connect(redis_url), "DEMO_", "dr1")
    noted.write(QueryRecord("query1", asdict(job.owner), time.time(), "session", "spark"))
    active_runs.clear()

    def away(*_: object) -> None:
        raise StoreUnreachable("Redis does not answer")

    monkeypatch.setattr(ApplyQuery, step, away)
    assert end_orphans.function() == 1


def test_housekeeping_leaves_a_job_that_another_run_takes_over_meanwhile(
    active_runs: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begin()
    active_runs.clear()
    exclusive = jobs.exclusive

    @contextlib.contextmanager
    def late(kind: Kind, prefix: str, slave: str) -> Iterator[None]:
        with exclusive(kind, prefix, slave):
            active_runs.add("run2")
            job.owned_by(replace(job.owner, run_id="run2"))
            yield

    monkeypatch.setattr(jobs, "exclusive", late)
    assert end_orphans.function() == 0
    assert job.stop_request() is None


def test_housekeeping_forgets_jobs_that_ended_long_ago_except_the_last_of_a_pair() -> None:
    first = begin()
    first.stop("anna", "x")
    second = begin(try_number=2)
    second.stop("anna", "x")
    for job in (first, second):
        awaited(lambda job=job: job.state() is JobState.ENDED)
        values = json.loads(job.file("result").read_text())
        job.file("result").write_text(json.dumps({**values, "ended": 1.0}))
    assert forget_jobs.function() == 1
    assert [job.id for job in jobs.all_jobs()] == [second.id]
    assert not first.log.exists() and second.log.exists()


def test_housekeeping_ignores_a_file_that_vanishes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = state_paths.jobs_folder() / ".apply-DEMO_-dr1-20260101T000000-abcd.json.1.ff"
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter([*listed(folder), gone]))
    assert forget_jobs.function() == 0
