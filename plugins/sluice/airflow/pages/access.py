"""Who may see Sluice's pages: those who may read the logs of the DAG `resync`.

Airflow does not protect what plugins serve. Its guards live in modules that are not its public interface: all that is
imported of them stands here, and where they are gone nothing is served.
"""

from typing import Any


def guard() -> Any:
    """A dependency of FastAPI that answers 401 to strangers and 403 to those who may not. Raises `ImportError`."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import Depends

    return Depends(requires_access_dag("GET", DagAccessEntity.TASK_LOGS, param_dag_id="resync"))
