"""The rights on the monitor. Airflow's auth manager decides.

| right | requires the right in Airflow to | allows |
|---|---|---|
| read | read task logs of the DAG `resync` | every page, without values of rows |
| operate | trigger the DAG that an action starts | that action |
| administer | change Airflow's connections | destructive actions |

Values of rows are shown to people who may trigger the DAG `rejects`. Airflow does not protect pages of plugins, and its
guards are no public interface: only this module imports them, and without them no page is served.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sluice.operate.actions import Action
from sluice.operate.api import REJECTS

READ_DAG = "resync"


@dataclass(frozen=True)
class Visitor:
    """A person who looks at a page."""

    name: str
    may_trigger: frozenset[str]
    """Those of the DAGs of `guard` that this person may trigger."""
    administers: bool
    form_key: str
    """Proves that a form comes from this person's page."""

    @property
    def sees_values(self) -> bool:
        """Whether values of rows are shown, which people who settle rejects need."""
        return REJECTS in self.may_trigger


def may(visitor: Visitor, action: Action) -> bool:
    return action.dag in visitor.may_trigger and (visitor.administers or not action.administer)


def missing_right(visitor: Visitor, action: Action) -> str:
    """The right that the person lacks for an action, for a message."""
    if action.dag not in visitor.may_trigger:
        return f"trigger the DAG {action.dag}"
    return "administer, which is the right to change Airflow's connections"


def guard(dags: Iterable[str]) -> Callable[..., Visitor]:
    """A dependency of FastAPI: answers 401 to strangers and 403 to people who may not read. Raises `ImportError`.

    `dags`: candidates for `Visitor.may_trigger`.
    """
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
    from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
    from airflow.models.dag import DagModel
    from airflow.sdk import conf
    from fastapi import Depends

    names = sorted(dags)

    def visitor(user: GetUserDep) -> Visitor:
        manager = get_auth_manager()
        teams = DagModel.get_dag_id_to_team_name_mapping(names)
        allowed = frozenset(
            dag
            for dag in names
            if manager.is_authorized_dag(
                method="POST",
                access_entity=DagAccessEntity.RUN,
                details=DagDetails(id=dag, team_name=teams.get(dag)),
                user=user,
            )
        )
        secret = str(conf.get("api", "secret_key")).encode()
        key = hmac.new(secret, f"sluice form {user.get_id()}".encode(), hashlib.sha256).hexdigest()
        return Visitor(
            str(user.get_name()), allowed, bool(manager.is_authorized_connection(method="PUT", user=user)), key
        )

    # FastAPI would look for the name in this module if the annotation was a text.
    visitor.__annotations__["user"] = GetUserDep
    return _both(Depends(requires_access_dag("GET", DagAccessEntity.TASK_LOGS, param_dag_id=READ_DAG)), visitor)


def _both(first: Any, visitor: Callable[..., Visitor]) -> Callable[..., Visitor]:
    """`visitor`, after `first` has admitted the person."""
    from fastapi import Depends

    def guarded(_: None = first, seen: Visitor = Depends(visitor)) -> Visitor:  # noqa: B008
        return seen

    return guarded
