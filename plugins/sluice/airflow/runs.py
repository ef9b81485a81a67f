"""Whether runs of DAGs go on, asked from within a task."""

from sluice.airflow.job import Owner
from sluice.model.joining import run_of

UPDATE_DAG = "initial_update"

_ACTIVE = ["queued", "running"]


def is_active(owner: Owner) -> bool:
    """Whether the run of a task goes on, so that somebody watches its job."""
    return _runs(owner.dag_id, owner.run_id, _ACTIVE) > 0


def is_updated(update_id: str | None, slave: str) -> bool:
    """Whether the run that brings the initial update `update_id` to its end for `slave` goes on."""
    if not update_id:
        return False
    own = run_of(update_id, slave)
    return _runs(UPDATE_DAG, own if _runs(UPDATE_DAG, own) else update_id, _ACTIVE) > 0


def _runs(dag_id: str, run_id: str, states: list[str] | None = None) -> int:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    return RuntimeTaskInstance.get_dr_count(dag_id=dag_id, run_ids=[run_id], states=states)
