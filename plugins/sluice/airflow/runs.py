"""Tells inside a task whether runs of DAGs are active."""

from sluice.airflow.job import Owner
from sluice.model.joining import run_of

UPDATE_DAG = "initial_update"

_ACTIVE = ["queued", "running"]


def is_active(owner: Owner) -> bool:
    """Whether the owner's run is active, so that it watches its job."""
    return _runs(owner.dag_id, owner.run_id, _ACTIVE) > 0


def is_known(owner: Owner) -> bool:
    """Whether this Airflow has the owner's run, in any state."""
    return _runs(owner.dag_id, owner.run_id) > 0


def is_updated(update_id: str | None, slave: str) -> bool:
    """Whether the run that completes the initial update `update_id` for `slave` is active."""
    if not update_id:
        return False
    own = run_of(update_id, slave)
    return _runs(UPDATE_DAG, own if _runs(UPDATE_DAG, own) else update_id, _ACTIVE) > 0


def _runs(dag_id: str, run_id: str, states: list[str] | None = None) -> int:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    return RuntimeTaskInstance.get_dr_count(dag_id=dag_id, run_ids=[run_id], states=states)
