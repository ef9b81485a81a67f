"""The apply outlives every component of Airflow, there is never a second one, and a person can end it.

The slave stands in state INITIAL, in which the apply runs and waits: what it applies is another test's business.
"""

import os
import signal
import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest

from devstack.stack import Stack
from sluice.airflow import jobs
from sluice.airflow.job import Job, JobState, Kind
from tests.stacks import until

DAG, TASK = "cdc_apply", "apply"
PAIR = {"prefix": "DEMO_", "slave": "dr1"}


@pytest.fixture
def applying(stack: Stack) -> tuple[str, Job]:
    """A run of cdc_apply that watches a living job; started by the first test that needs it."""
    running = jobs.live(Kind.APPLY, "DEMO_", "dr1")
    if running is None:
        stack.airflow.api().await_dags([DAG])
        run = stack.airflow.api().trigger(DAG, PAIR)
        running = await_value(lambda: jobs.live(Kind.APPLY, "DEMO_", "dr1"), 300)
    else:
        run = running.owner.run_id
    await_value(lambda: task_state(stack, run) == "deferred", 300)
    return run, running


def await_value(look: Callable[[], Any], seconds: float) -> Any:
    """Returns the result of `look` when it is not empty; repeats while Airflow does not answer."""
    found: list[Any] = []

    def there() -> bool:
        found[:] = [look()]
        return bool(found[0])

    until(there, seconds)
    return found[0]


def task_state(stack: Stack, run: str) -> str | None:
    return next(state for _, _, state in stack.airflow.api().task_states(DAG, run))


def successor(job: Job) -> Job | None:
    """The running job, if it is another one."""
    running = jobs.live(Kind.APPLY, "DEMO_", "dr1")
    return running if running is not None and running.id != job.id else None


def test_the_job_goes_on_while_components_of_airflow_are_killed(stack: Stack, applying: tuple[str, Job]) -> None:
    run, job = applying
    components = ("airflow-triggerer", "airflow-scheduler", "airflow-dag-processor", "airflow-api-server")
    killed = {component: stack.kill(component) for component in components}
    for component, process in killed.items():
        stack.await_running(component, 90, after=process)
    assert job.state() is JobState.RUNNING
    assert jobs.live(Kind.APPLY, "DEMO_", "dr1") == job
    assert task_state(stack, run) == "deferred"


def test_a_killed_job_is_launched_again_by_the_same_run(stack: Stack, applying: tuple[str, Job]) -> None:
    run, job = applying
    # One that was just killed may still start.
    until(lambda: stack.airflow.api().health()["triggerer"]["status"] == "healthy", 300)
    os.kill(job.runner.pid, signal.SIGKILL)
    other = await_value(lambda: successor(job), 300)
    assert other.owner.run_id == run
    await_value(lambda: task_state(stack, run) == "deferred", 300)


def test_a_second_run_ends_at_once_and_says_why(stack: Stack, applying: tuple[str, Job]) -> None:
    run, job = applying
    api = stack.airflow.api()
    second = api.trigger(DAG, PAIR)
    await_value(lambda: api.run_state(DAG, second) == "success", 300)
    assert task_state(stack, second) == "skipped"
    assert f"already being applied by run {run} of cdc_apply" in api.task_log(DAG, second, TASK, 1)
    assert jobs.live(Kind.APPLY, "DEMO_", "dr1") == job


def test_a_cleared_task_gets_a_new_job_after_the_end_of_the_old_one(stack: Stack, applying: tuple[str, Job]) -> None:
    run, job = applying
    body = {"dry_run": False, "dag_run_id": run, "task_ids": [TASK], "only_failed": False, "reset_dag_runs": True}
    stack.airflow.api().call("POST", f"dags/{DAG}/clearTaskInstances", body)
    other = await_value(lambda: successor(job), 300)
    assert job.state() is JobState.ENDED
    result = job.result()
    assert result is not None and result.ended <= other.launched
    await_value(lambda: task_state(stack, run) == "deferred", 300)
    assert jobs.live(Kind.APPLY, "DEMO_", "dr1") == other


def test_the_jobs_output_is_in_the_task_log_without_passwords(stack: Stack, applying: tuple[str, Job]) -> None:
    run, _ = applying
    api = stack.airflow.api()
    attempt = api.get(f"dags/{DAG}/dagRuns/{urllib.parse.quote(run)}/taskInstances/{TASK}")["try_number"]
    await_value(lambda: "held there by a test" in api.task_log(DAG, run, TASK, attempt), 300)
    everything = api.task_log(DAG, run, TASK, attempt)
    assert stack.connection("dr1").password not in everything
    assert stack.redis_url not in everything
    # Of a deferred task Airflow asks its log server as well, and shows what is wrong with the answer.
    assert task_state(stack, run) == "deferred"
    assert "Could not read served logs" not in everything and "secret_key" not in everything


def test_marking_the_run_failed_ends_the_job(stack: Stack, applying: tuple[str, Job]) -> None:
    run, job = applying
    stack.airflow.api().call("PATCH", f"dags/{DAG}/dagRuns/{urllib.parse.quote(run)}", {"state": "failed"})
    await_value(lambda: job.state() is JobState.ENDED, 300)
    await_value(lambda: task_state(stack, run) == "failed", 300)
    assert successor(job) is None, "a task that has ended launches nothing"
