"""Makes tasks from plain functions: outages are retried with back-off, errors that need a person fail at once."""

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from airflow.sdk import Context, get_current_context, task

from sluice.airflow.failure import as_airflow
from sluice.airflow.task_context import TaskContext

RETRY: dict[str, Any] = {
    "retries": 40,
    "retry_delay": timedelta(seconds=3),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=1),
}
"""Retries through an outage of about half an hour. Terminal errors fail the task at the first try."""

FOR_EVER: dict[str, Any] = {**RETRY, "retries": 100_000}
"""Retries through an outage of any length."""

NOT_RUN = frozenset({"upstream_failed", "skipped", "removed", None})
"""States of a task that did not run."""


def step(function: Callable[[TaskContext], object] | None = None, **options: object) -> Any:
    """A task factory: `@step def check(task): …`, then `check()` in a DAG. Airflow shows the docstring."""

    def as_task(body: Callable[[TaskContext], object]) -> Callable[[], object]:
        settings = {"task_id": body.__name__, "doc_md": inspect.getdoc(body), **RETRY, **options}

        @task(**settings)  # type: ignore[untyped-decorator]
        def run() -> object:
            context = get_current_context()
            with as_airflow(context):
                return body(TaskContext.of(context))

        made_task: Callable[[], object] = run
        made_task.body = body  # type: ignore[attr-defined]
        return made_task

    return as_task if function is None else as_task(function)


def teardown(body: Callable[[Any], str]) -> Any:
    """A task factory for the last task of a DAG, which always runs; `body` takes the context."""

    def as_task() -> object:
        @task(task_id=body.__name__, doc_md=inspect.getdoc(body), **FOR_EVER)
        def run() -> str:
            context = get_current_context()
            with as_airflow(context):
                return body(context)

        return run().as_teardown(on_failure_fail_dagrun=True)

    as_task.body = body  # type: ignore[attr-defined]
    return as_task


def states_of_run(context: Context) -> dict[str, object]:
    """States of this run's tasks, by task id."""
    ti = context["ti"]
    states: dict[str, object] = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id]).get(ti.run_id, {})
    return states
