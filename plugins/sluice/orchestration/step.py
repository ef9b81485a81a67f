"""Tasks made of plain functions: retried on outages with back-off, ended at once by what needs a person."""

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from airflow.sdk import get_current_context, task

from sluice.orchestration.failure import as_airflow
from sluice.orchestration.work import Work

RETRY: dict[str, Any] = {
    "retries": 40,
    "retry_delay": timedelta(seconds=3),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=1),
}
"""For outages, about half an hour of them. Terminal errors end the task at the first try."""

FOR_EVER: dict[str, Any] = {**RETRY, "retries": 100_000}
"""For what must be done in the end, however long the outage lasts."""


def step(function: Callable[[Work], Any] | None = None, **options: Any) -> Any:
    """A task factory: `@step def check(work): …`, then `check()` in a DAG. The docstring shows in Airflow."""

    def made(body: Callable[[Work], Any]) -> Callable[[], Any]:
        settings = {"task_id": body.__name__, "doc_md": inspect.getdoc(body), **RETRY, **options}

        @task(**settings)  # type: ignore[untyped-decorator]
        def run() -> Any:
            context = get_current_context()
            with as_airflow(context):
                return body(Work.of(context))

        made_task: Callable[[], Any] = run
        made_task.body = body  # type: ignore[attr-defined]
        return made_task

    return made if function is None else made(function)
