"""Tasks made of plain functions: retried on outages with back-off, ended at once by what needs a person."""

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
"""For outages, about half an hour of them. Terminal errors end the task at the first try."""

FOR_EVER: dict[str, Any] = {**RETRY, "retries": 100_000}
"""For what must be done in the end, however long the outage lasts."""

NOT_RUN = frozenset({"upstream_failed", "skipped", "removed", None})
"""States of a task that has not run."""


def step(function: Callable[[TaskContext], object] | None = None, **options: object) -> Any:
    """A task factory: `@step def check(work): …`, then `check()` in a DAG. The docstring shows in Airflow."""

    def made(body: Callable[[TaskContext], object]) -> Callable[[], object]:
        settings = {"task_id": body.__name__, "doc_md": inspect.getdoc(body), **RETRY, **options}

        @task(**settings)  # type: ignore[untyped-decorator]
        def run() -> object:
            context = get_current_context()
            with as_airflow(context):
                return body(TaskContext.of(context))

        made_task: Callable[[], object] = run
        made_task.body = body  # type: ignore[attr-defined]
        return made_task

    return made if function is None else made(function)


def teardown(body: Callable[[Any], str]) -> Any:
    """A task factory for the last task of a DAG, which runs whatever happened before; `body` takes the context."""

    def made() -> object:
        @task(task_id=body.__name__, doc_md=inspect.getdoc(body), **FOR_EVER)
        def run() -> str:
            context = get_current_context()
            with as_airflow(context):
                return body(context)

        return run().as_teardown(on_failure_fail_dagrun=True)

    made.body = body  # type: ignore[attr-defined]
    return made


def states_of_run(context: Context) -> dict[str, object]:
    """The states of this run's tasks by their names."""
    ti = context["ti"]
    found: dict[str, object] = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id]).get(ti.run_id, {})
    return found
