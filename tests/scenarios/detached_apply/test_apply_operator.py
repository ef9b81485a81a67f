"""The task of cdc_apply and its trigger, with a real Spark, Redis and databases, without the rest of Airflow."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from devstack.spark import SparkServer
from sluice.airflow import applies, apply_operator, connections, job_operator, job_trigger, jobs
from sluice.airflow.applies import QueryJob
from sluice.airflow.apply_operator import ApplyOperator
from sluice.airflow.job import Job
from sluice.airflow.job_trigger import JobTrigger
from sluice.airflow.query_trigger import QueryTrigger, StandbyTrigger
from sluice.errors import SluiceError
from spark_jobs import apply_query
from tests.airflow_connections import connect_airflow
from tests.rig.rig import Rig
from tests.waiting import awaited, until

pytestmark = pytest.mark.long

TABLES = "CREATE TABLE public.orders (id int PRIMARY KEY, note text)"


class Store(dict[str, Any]):
    """A task's state store."""

    def set(self, key: str, value: Any, retention: Any = None) -> None:
        self[key] = value


class Airflow:
    """What a task of cdc_apply needs of Airflow; runs are active while they are in `runs`."""

    def __init__(self, rig: Rig, spark: SparkServer) -> None:
        self.rig, self.spark = rig, spark
        self.runs = {"run1"}
        self.unknown: set[str] = set()
        """Runs of another Airflow."""
        self.endpoint = {"remote": spark.server.url}
        self.store = Store()
        self._rows = 0

    def context(self, run: str = "run1", try_number: int = 1, max_tries: int = 10) -> Any:
        ti = SimpleNamespace(
            dag_id="cdc_apply", run_id=run, task_id="apply", try_number=try_number, max_tries=max_tries,
            xcom_push=lambda **_: None,
        )  # fmt: skip
        params = {"prefix": "demo_", "slave": "dr1"}
        dag = SimpleNamespace(dag_id="cdc_apply")
        return {"ti": ti, "run_id": run, "params": params, "task_state_store": self.store, "dag": dag}

    def begin(self, **values: Any) -> JobTrigger:
        """Runs the task until it defers, and returns its trigger."""
        return self._deferred(lambda: task().execute(self.context(**values)))

    def resume(self, event: dict[str, Any]) -> JobTrigger:
        return self._deferred(lambda: task().resume(self.context(), event))

    @staticmethod
    def _deferred(work: Callable[[], object]) -> JobTrigger:
        with pytest.raises(TaskDeferred) as raised:
            work()
        trigger = raised.value.trigger
        assert isinstance(trigger, JobTrigger)
        # As Airflow stores it.
        path, values = trigger.serialize()
        assert path.endswith(type(trigger).__name__)
        return type(trigger)(**{**values, "earliest": 0.0})

    def event(self, trigger: JobTrigger) -> dict[str, Any]:
        """What the trigger fires, but for comparisons of definitions, after which another one watches."""
        fired = self._fired(trigger)
        while fired["next"] == "tell":
            fired = self._fired(type(trigger)(**trigger.serialize()[1]))
        return fired

    @staticmethod
    def _fired(trigger: JobTrigger) -> dict[str, Any]:

        async def first() -> dict[str, Any]:
            async for event in trigger.run():
                return dict(event.payload)
            raise AssertionError("the trigger ended without an event")

        return asyncio.run(asyncio.wait_for(first(), 300))

    def applies(self) -> None:
        """Returns when a change of now is on the slave."""
        self._rows += 1
        self.rig.master.execute("INSERT INTO public.orders VALUES (%s, 'row')", [self._rows])
        self.rig.await_current()
        assert self.rig.differences() == {}


def task() -> ApplyOperator:
    return ApplyOperator(task_id="apply", prefix="demo_", slave="dr1")


def query() -> QueryJob:
    running = applies.live("DEMO_", "dr1")
    assert isinstance(running, QueryJob), running
    return running


@pytest.fixture
def airflow(
    rig: Callable[..., Rig], spark: SparkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Airflow]:
    pair = rig(TABLES)
    made = Airflow(pair, spark)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLUICE_REDIS_URL", pair.redis_url)
    connect_airflow(monkeypatch, "m", pair.master_info)
    connect_airflow(monkeypatch, "s", pair.slave_info)
    monkeypatch.setattr("sluice.airflow.connections.spark", lambda: made.endpoint)
    monkeypatch.setattr(job_operator, "is_active", lambda owner: owner.run_id in made.runs)
    monkeypatch.setattr(apply_operator, "is_known", lambda owner: owner.run_id not in made.unknown)
    monkeypatch.setattr(job_trigger, "BACK_SECONDS", 1.0)
    yield made
    made.endpoint = {"remote": spark.server.url}
    for job in [applies.query("DEMO_", "dr1"), *jobs.all_jobs()]:
        if job is not None:
            job.stop("the test", "it is over")
            with suppress(SluiceError):
                job.await_end(60)


def test_a_query_is_started_found_by_the_next_try_left_by_another_run_and_adopted_when_its_run_is_over(
    airflow: Airflow,
) -> None:
    trigger = airflow.begin()
    assert isinstance(trigger, QueryTrigger)
    airflow.applies()
    job = query()
    assert airflow.store["job"] == job.id == trigger.job_id
    assert airflow.store["query"] == f"{job.record.session} {job.record.query}"
    assert airflow.begin(try_number=2).job_id == job.id
    with pytest.raises(AirflowSkipException, match=f"already being applied by run run1 of cdc_apply, job {job.id}"):
        task().execute(airflow.context("run2"))
    airflow.runs.clear()
    assert airflow.begin(run="run2").job_id == job.id
    assert query().owner.run_id == "run2"
    airflow.applies()


@pytest.mark.parametrize("spark_dies", [False, True])
def test_a_second_airflow_stands_by_takes_over_and_the_first_one_stands_by_when_it_is_back(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch, spark_dies: bool
) -> None:
    for module in ("sluice.coordination.apply_query", "sluice.airflow.query_trigger"):
        monkeypatch.setattr(f"{module}.WATCH_SECONDS", 4.0)
    trigger = airflow.begin()
    noted, record = query().noted, query().record
    airflow.applies()

    def stands_by(work: Callable[[], object]) -> StandbyTrigger:
        with pytest.raises(TaskDeferred) as raised:
            work()
        standby = raised.value.trigger
        assert isinstance(standby, StandbyTrigger)
        return StandbyTrigger(**{**standby.serialize()[1], "earliest": 0.0})

    async def first_airflow_dies() -> None:
        watching = asyncio.create_task(anext(trigger.run()))
        await asyncio.to_thread(until, lambda: bool(noted.state().watched_by))
        airflow.runs, airflow.unknown = {"theirs"}, {"run1"}
        standby = stands_by(lambda: task().execute(airflow.context("theirs")))
        takes_over = asyncio.create_task(anext(standby.run()))
        await asyncio.to_thread(until, lambda: bool(noted.state().standby))
        assert not takes_over.done()
        watching.cancel()
        if spark_dies:
            await asyncio.to_thread(apply_query.stop, connections.endpoint(), record)
        await asyncio.wait_for(takes_over, 120)

    asyncio.run(first_airflow_dies())
    taken = airflow._deferred(lambda: task().take_over(airflow.context("theirs"), {}))
    assert query().owner.run_id == "theirs"
    if spark_dies:
        event = airflow.event(taken)
        assert event["next"] == "relaunch", event
        airflow._deferred(lambda: task().resume(airflow.context("theirs"), event))
    airflow.applies()
    assert (query().record.query == record.query) is not spark_dies

    airflow.runs, airflow.unknown = {"run1"}, {"theirs"}
    back = airflow.event(type(trigger)(**trigger.serialize()[1]))
    assert back["next"] == "leave"
    query().noted.watch()
    stands_by(lambda: task().resume(airflow.context(), back))
    assert query().owner.run_id == "theirs"


def test_a_cleared_task_gets_another_query_after_the_end_of_the_first(airflow: Airflow) -> None:
    first = airflow.begin().job_id
    airflow.applies()
    assert airflow.begin(try_number=2, max_tries=11).job_id != first
    airflow.applies()


def test_a_query_that_spark_has_forgotten_is_started_again(airflow: Airflow) -> None:
    trigger = airflow.begin()
    airflow.applies()
    job = query()
    apply_query.stop(connections.endpoint(), job.record)
    event = airflow.event(trigger)
    assert event["next"] == "relaunch"
    assert airflow.resume(event).job_id != job.id
    airflow.applies()


def test_while_spark_is_away_the_apply_is_a_process_and_goes_back_by_itself(airflow: Airflow) -> None:
    airflow.endpoint = {"remote": "sc://localhost:1/;token=x"}
    trigger = airflow.begin()
    airflow.applies()
    process = applies.live("DEMO_", "dr1")
    assert isinstance(process, Job) and not isinstance(trigger, QueryTrigger)
    assert "does not answer" in applies.of_pair("DEMO_", "dr1").state().why_process
    airflow.endpoint = {"remote": airflow.spark.server.url}
    event = airflow.event(trigger)
    assert event["next"] == "move" and "Spark is back" in event["why"]
    assert isinstance(airflow.resume(event), QueryTrigger)
    assert not process.runner.alive()
    airflow.applies()
    assert applies.of_pair("DEMO_", "dr1").state().why_process == ""


def test_a_configuration_that_changes_begins_another_query_also_where_all_slots_are_taken(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = airflow.begin()
    airflow.applies()
    job = query()
    monkeypatch.setattr(applies, "why_no_spark", lambda: "all slots are taken")
    file = airflow.rig.replication.source
    file.write_text(file.read_text().replace("max_batch_changes: 1000000", "max_batch_changes: 999999"))
    event = airflow.event(trigger)
    assert event["next"] == "move" and "has changed" in event["why"]
    assert airflow.resume(event).job_id != job.id
    airflow.applies()


def test_a_configuration_that_changes_while_a_query_is_started_is_not_lost(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, live = airflow.rig.replication.source, applies.live

    def changing(*pair: str) -> Any:
        file.write_text(file.read_text().replace("max_batch_changes: 1000000", "max_batch_changes: 999999"))
        return live(*pair)

    with monkeypatch.context() as patched:
        patched.setattr(applies, "live", changing)
        trigger = airflow.begin()
    event = airflow.event(trigger)
    assert event["next"] == "move" and "has changed" in event["why"]


@pytest.mark.parametrize("found_by", ["trigger", "next try"])
def test_a_process_is_what_runs_where_the_file_says_so(airflow: Airflow, found_by: str) -> None:
    trigger = airflow.begin()
    airflow.applies()
    former, file = query(), airflow.rig.replication.source
    file.write_text(file.read_text().replace("apply:", "apply:\n  runs_on: process"))
    if found_by == "trigger":
        event = airflow.event(trigger)
        assert event["next"] == "move"
        trigger = airflow.resume(event)
    else:
        trigger = airflow.begin(try_number=2)
    assert not isinstance(trigger, QueryTrigger) and former.result() is not None
    assert isinstance(applies.live("DEMO_", "dr1"), Job)
    airflow.applies()


def test_a_person_who_ends_the_task_ends_the_query(airflow: Airflow) -> None:
    trigger = airflow.begin()
    airflow.applies()
    job = query()
    trigger._stop("its task was cleared or marked")
    assert applies.live("DEMO_", "dr1") is None
    assert job.result() is not None


def test_a_start_that_dies_before_it_notes_the_query_finds_it_again(airflow: Airflow) -> None:
    airflow.begin()
    airflow.applies()
    job = query()
    job.noted.write(replace(job.record, query="", run=""))
    trigger = airflow.begin(try_number=2)
    assert trigger.job_id == job.id
    assert trigger._runs() and apply_query.look(connections.endpoint(), query().record) == (
        "active",
        "",
    )


def test_an_emptied_redis_does_not_end_the_query(airflow: Airflow) -> None:
    trigger = airflow.begin()
    airflow.applies()
    job = query()
    assert isinstance(trigger, QueryTrigger)
    trigger.record = replace(trigger.record, launched=trigger.record.launched - 3600)
    airflow.rig.store.flushall()
    until(lambda: trigger._runs() and applies.live("DEMO_", "dr1") is not None)
    until(lambda: trigger._runs() and query().noted.state().begun is not None)
    assert query().id == job.id
    airflow.applies()


def test_a_frozen_executor_is_replaced(airflow: Airflow) -> None:
    trigger = airflow.begin()
    airflow.applies()
    begun = awaited(lambda: query().noted.state().begun)
    os.kill(begun.pid, signal.SIGSTOP)  # type: ignore[union-attr]
    try:
        began = time.monotonic()
        airflow.resume(airflow.event(trigger))
        airflow.applies()
        print(f"applying again after {time.monotonic() - began:.1f} s")
    finally:
        with suppress(ProcessLookupError):
            os.kill(begun.pid, signal.SIGCONT)  # type: ignore[union-attr]
    airflow.applies()
