"""Imports what the DAGs need before Airflow forks the processes that parse them and run their tasks.

Otherwise each of these processes imports it again, for each file every half minute, and for each task.
"""

from airflow.listeners import hookimpl
from airflow.sdk.execution_time.task_runner import TaskRunnerMarker


@hookimpl
def on_starting(component: object) -> None:
    """Airflow calls this when a component starts, before it forks, and when a task starts, which needs only its DAG."""
    if not isinstance(component, TaskRunnerMarker):
        from sluice.airflow import (  # noqa: F401
            apply_operator,
            apply_start,
            approval,
            await_normal,
            forms,
            job_operator,
            multi_slave,
            new_tables,
            steps_broadcast,
            steps_failover,
            steps_gate,
            steps_housekeeping,
            steps_master,
            steps_rejects,
            steps_removal,
            steps_resync,
            steps_update,
        )
