"""The trigger that watches a job, on real processes."""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from sluice.airflow import job_trigger, jobs
from sluice.airflow.job import Job, JobState, Kind, Owner
from sluice.airflow.job_trigger import JobTrigger, parse_line
from sluice.model.comparison_trigger import COMPARE_AND_TELL
from tests.waiting import until


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(jobs, "MODULE", "tests.unit.fake_job")
    yield
    for job in jobs.all_jobs():
        if job.runner.alive():
            os.kill(job.runner.pid, signal.SIGKILL)
        until(lambda each=job: not each.runner.alive())  # type: ignore[misc]
        job.kill_leftovers()


def launch(kind: Kind = Kind.APPLY, **wish: Any) -> Job:
    return jobs.launch(kind, "DEMO_", "dr1", Owner("cdc_apply", "run1", "apply"), wish)


class Counting(JobTrigger):
    """A trigger that counts its looks at the job."""

    looks = 0

    def _runs(self) -> bool:
        self.looks += 1
        return super()._runs()

    async def await_looks(self, number: int) -> None:
        async with asyncio.timeout(60):
            while self.looks < number:
                await asyncio.sleep(0.01)


async def event_of(trigger: JobTrigger) -> dict[str, Any]:
    async for event in trigger.run():
        return dict(event.payload)
    raise AssertionError("the trigger ended without an event")


def watch(job: Job, seconds: float = 60) -> dict[str, Any]:
    return asyncio.run(asyncio.wait_for(event_of(JobTrigger.of(job)), seconds))


def test_output_of_the_job_reaches_the_task_log_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["2026-01-02T03:04:05.678Z INFO Applied 5 changes", "2026-01-02T03:04:05.678Z WARNING Slow"]
    job = launch(Kind.LOAD, log=lines, sleep=1)
    assert watch(job)["next"] == "finish"
    assert watch(job)["next"] == "finish"  # another triggerer, later
    said = capsys.readouterr().out
    assert said.count("Applied 5 changes") == 1
    assert "warning" in next(line for line in said.splitlines() if "Slow" in line)


def test_a_request_for_a_comparison_is_passed_on_once_and_the_job_goes_on() -> None:
    said = "2026-01-02T03:04:05.678Z INFO DEMO_ \u2192 dr1: the master's definitions have changed: " + COMPARE_AND_TELL
    job = launch(log=[said], sleep=60)
    event = watch(job)
    assert (event["next"], event["job_id"], event["attempt"]) == ("tell", job.id, 0)
    assert job.state() is JobState.RUNNING and job.stop_request() is None

    async def scenario() -> None:
        trigger = Counting.of(job)
        assert isinstance(trigger, Counting)
        watching = asyncio.create_task(event_of(trigger))
        await trigger.await_looks(2)
        assert not watching.done()
        watching.cancel()

    asyncio.run(scenario())


def test_a_killed_job_is_noticed_and_started_again() -> None:
    job = launch(sleep=60)

    async def scenario() -> int:
        trigger = Counting.of(job)
        assert isinstance(trigger, Counting)
        watching = asyncio.create_task(event_of(trigger))
        await trigger.await_looks(1)
        os.kill(job.runner.pid, signal.SIGKILL)
        until(lambda: not job.runner.alive())
        before = trigger.looks
        event = await asyncio.wait_for(watching, 60)
        assert (event["next"], event["attempt"]) == ("relaunch", 1)
        return trigger.looks - before

    assert asyncio.run(scenario()) <= 1, "it is noticed with the next look"


def test_a_dead_process_is_noticed_while_spark_is_asked_and_spark_is_asked_once_for_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, asked = threading.Event(), []

    def why_no_spark() -> str:
        asked.append(time.monotonic())
        answers.wait(60)
        return ""

    monkeypatch.setattr(job_trigger, "BACK_SECONDS", 0.0)
    monkeypatch.setattr(job_trigger, "_PROBE", job_trigger.SparkProbe())
    monkeypatch.setattr("sluice.airflow.applies.why_no_spark", why_no_spark)
    jobs_of_pairs = [launch(sleep=60) for _ in range(3)]

    async def scenario() -> list[dict[str, Any]]:
        triggers = [JobTrigger.of(job, awaits_spark=True) for job in jobs_of_pairs]
        watching = [asyncio.create_task(event_of(trigger)) for trigger in triggers]
        async with asyncio.timeout(60):
            while not asked:
                await asyncio.sleep(0.01)
        os.kill(jobs_of_pairs[0].runner.pid, signal.SIGKILL)
        dead = await asyncio.wait_for(watching[0], 30)
        assert len(asked) == 1 and not answers.is_set()
        answers.set()
        return [dead, *[await asyncio.wait_for(each, 30) for each in watching[1:]]]

    assert [event["next"] for event in asyncio.run(scenario())] == ["relaunch", "move", "move"]
    assert len(asked) == 1


def test_an_answer_of_spark_from_before_the_process_was_started_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("sluice.airflow.applies.why_no_spark", lambda: asked.append("asked") or "")
    probe = job_trigger.SparkProbe()
    until(lambda: probe.runs_tasks(0.0))
    later = time.monotonic() + 3600
    assert not probe.runs_tasks(later) and asked == ["asked"]


def test_a_job_that_needs_a_person_reports_the_reason() -> None:
    event = watch(launch(exit=78, log=["2026-01-02T03:04:05.678Z ERROR Add column c to a.b."]))
    assert (event["next"], event["why"]) == ("fail", "Add column c to a.b.")


def test_a_job_whose_record_vanished_counts_as_lost() -> None:
    trigger = JobTrigger("apply-DEMO_-dr1-gone", "apply", time.time() - 5, attempt=0)
    event = asyncio.run(asyncio.wait_for(event_of(trigger), 60))
    assert event["next"] == "relaunch"


def test_a_canceled_trigger_leaves_the_job_alone() -> None:
    job = launch(sleep=60)

    async def scenario() -> None:
        trigger = Counting.of(job)
        assert isinstance(trigger, Counting)
        watching = asyncio.create_task(event_of(trigger))
        await trigger.await_looks(1)
        watching.cancel("EOF - shutting down")
        with pytest.raises(asyncio.CancelledError):
            await watching
        await trigger.cleanup()

    asyncio.run(scenario())
    assert job.stop_request() is None
    assert job.state() is JobState.RUNNING


@pytest.mark.parametrize(("deferred", "state"), [(0, JobState.ENDED), (1, JobState.RUNNING)])
def test_the_job_ends_when_a_person_ends_its_task_and_not_when_another_triggerer_takes_over(
    deferred: int, state: JobState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RuntimeTaskInstance, "get_ti_count", staticmethod(lambda **_: deferred))
    job = launch(sleep=60)
    trigger = JobTrigger.of(job)
    trigger._task_instance = SimpleNamespace(dag_id="cdc_apply", run_id="run1", task_id="apply", map_index=-1)
    asyncio.run(trigger.on_kill())
    assert (job.stop_request() is None) == bool(deferred)
    until(lambda: job.state() is state)


def test_the_job_ends_also_where_airflow_does_not_say_what_became_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow stops `on_kill` after some seconds: a job that had not been told to end by then would run forever."""
    answers = threading.Event()
    monkeypatch.setattr(job_trigger, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(RuntimeTaskInstance, "get_ti_count", staticmethod(lambda **_: answers.wait(60)))
    job = launch(sleep=60)
    trigger = JobTrigger.of(job)
    trigger._task_instance = SimpleNamespace(dag_id="cdc_apply", run_id="run1", task_id="apply", map_index=-1)

    async def scenario() -> None:
        await trigger.on_kill()
        assert not answers.is_set() and job.stop_request() is not None
        answers.set()

    asyncio.run(scenario())
    until(lambda: job.state() is not JobState.RUNNING)


@pytest.mark.long
def test_a_flood_neither_blocks_the_event_loop_nor_fills_the_task_log(capsys: pytest.CaptureFixture[str]) -> None:
    job = launch(Kind.LOAD, flood=200_000, sleep=2)

    async def scenario() -> float:
        watching = asyncio.create_task(event_of(JobTrigger.of(job)))
        worst = 0.0
        while not watching.done():
            began = time.thread_time()
            await asyncio.sleep(0.01)
            worst = max(worst, time.thread_time() - began)
        return worst

    assert asyncio.run(scenario()) < 0.5, "CPU time of the event loop's thread in one go"
    said = capsys.readouterr().out
    assert said.count("\n") < 20_000
    assert f"The whole log is {job.log}" in said


def test_a_trigger_survives_its_serialisation() -> None:
    trigger = JobTrigger("apply-x", "apply", 12.5, 3)
    path, values = trigger.serialize()
    assert path == f"{JobTrigger.__module__}.{JobTrigger.__qualname__}"
    assert JobTrigger(**values).serialize() == (path, values)


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("2026-01-02T03:04:05.678Z ERROR boom", (logging.ERROR, "boom")),
        ("2026-01-02 03:04:05,678 WARNING slow: 3 s", (logging.WARNING, "slow: 3 s")),
        ("26/01/02 03:04:05 WARN Utils: noise", (logging.INFO, "26/01/02 03:04:05 WARN Utils: noise")),
        ("", (logging.INFO, "")),
    ],
)
def test_the_task_log_repeats_neither_time_nor_level(line: str, parsed: tuple[int, str]) -> None:
    assert parse_line(line) == parsed
