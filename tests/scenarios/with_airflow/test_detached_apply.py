"""The apply outlives every component of Airflow, there is never a second one, and a person can end it.

The slave stands in state INITIAL, in which the apply runs and waits: what it applies is another test's business.
"""

import os
import signal
import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest

from devstack.process import ProcessId
from devstack.stack import Stack
from sluice.airflow import applies
from sluice.airflow.applies import QueryJob
from sluice.airflow.job import JobState
from tests.stacks import until

pytestmark = pytest.mark.long

DAG, TASK = "cdc_apply", "apply"
PAIR = {"prefix": "DEMO_", "slave": "dr1"}


@pytest.fixture
def applying(stack: Stack) -> tuple[str, QueryJob]:
    """A run of cdc_apply that watches a living job; started by the first test that needs it."""
    running = applies.live("DEMO_", "dr1")
    if running is None:
        stack.airflow.api().await_dags([DAG])
        run = stack.airflow.api().trigger(DAG, PAIR)
        running = await_value(lambda: applies.live("DEMO_", "dr1"), 300)
    else:
        run = running.owner.run_id
    await_value(lambda: task_state(stack, run) == "deferred", 300)
    assert isinstance(running, QueryJob), "the apply is a query of Spark"
    await_value(lambda: running.noted.state().begun, 300)
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


def successor(job: QueryJob) -> QueryJob | None:
    """The running apply, if it is another one."""
    running = applies.live("DEMO_", "dr1")
    return running if isinstance(running, QueryJob) and running.id != job.id else None


def running_id() -> str:
    running = applies.live("DEMO_", "dr1")
    return running.id if running is not None else ""


def test_the_job_goes_on_while_components_of_airflow_are_killed(stack: Stack, applying: tuple[str, QueryJob]) -> None:
    run, job = applying
    components = ("airflow-triggerer", "airflow-scheduler", "airflow-dag-processor", "airflow-api-server")
    killed = {component: stack.kill(component) for component in components}
    for component, process in killed.items():
        stack.await_running(component, 300, after=process)
    assert job.state() is JobState.RUNNING
    assert running_id() == job.id
    assert task_state(stack, run) == "deferred"


def test_a_query_whose_worker_is_killed_goes_on_in_another_one(stack: Stack, applying: tuple[str, QueryJob]) -> None:
    _, job = applying
    begun = job.noted.state().begun
    assert begun is not None
    os.kill(begun.pid, signal.SIGKILL)
    await_value(lambda: (now := job.noted.state().begun) is not None and now != begun, 300)
    assert running_id() == job.id


def test_a_query_that_spark_forgets_is_started_again_by_the_same_run(
    stack: Stack, applying: tuple[str, QueryJob]
) -> None:
    run, job = applying
    # One that was just killed may still start.
    until(lambda: stack.airflow.api().health()["triggerer"]["status"] == "healthy", 300)
    worker = ProcessId.of(job.noted.state().begun.pid)  # type: ignore[union-attr]
    stack.await_running("spark", 180, after=stack.kill("spark"))
    assert worker is None or not worker.alive()
    other = await_value(lambda: successor(job), 300)
    assert other.owner.run_id == run
    await_value(lambda: task_state(stack, run) == "deferred", 300)


def test_a_second_run_ends_at_once_and_says_why(stack: Stack, applying: tuple[str, QueryJob]) -> None:
    run, job = applying
    api = stack.airflow.api()
    second = api.trigger(DAG, PAIR)
    await_value(lambda: api.run_state(DAG, second) == "success", 300)
    assert task_state(stack, second) == "skipped"
    assert f"already being applied by run {run} of cdc_apply" in api.task_log(DAG, second, TASK, 1)
    assert running_id() == job.id


def test_a_cleared_task_gets_a_new_job_after_the_end_of_the_old_one(
    stack: Stack, applying: tuple[str, QueryJob]
) -> None:
    run, job = applying
    body = {"dry_run": False, "dag_run_id": run, "task_ids": [TASK], "only_failed": False, "reset_dag_runs": True}
    stack.airflow.api().call("POST", f"dags/{DAG}/clearTaskInstances", body)
    other = await_value(lambda: successor(job), 300)
    assert job.state() is not JobState.RUNNING
    await_value(lambda: task_state(stack, run) == "deferred", 300)
    assert running_id() == other.id


def test_the_jobs_output_is_in_the_task_log_without_passwords(stack: Stack, applying: tuple[str, QueryJob]) -> None:
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


def test_marking_the_run_failed_ends_the_job(stack: Stack, applying: tuple[str, QueryJob]) -> None:
    run, job = applying
    stack.airflow.api().call("PATCH", f"dags/{DAG}/dagRuns/{urllib.parse.quote(run)}", {"state": "failed"})
    await_value(lambda: job.state() is JobState.ENDED, 300)
    await_value(lambda: task_state(stack, run) == "failed", 300)
    assert successor(job) is None, "a task that has ended launches nothing"
