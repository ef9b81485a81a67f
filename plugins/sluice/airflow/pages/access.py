"""The rights on the monitor: Airflow's auth manager decides them.

| right | is that of | shows or does |
|---|---|---|
| read | who may read task logs of the DAG `resync` | every page, without values of rows |
| operate | who may trigger the DAG that an action starts | that action |
| administer | who may change Airflow's connections | what destroys something; values of rows |

Airflow does not protect what plugins serve. Its guards are no public interface. All that is imported of them stands
here; where they are gone, nothing is served.
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
    """DAGs that this person may start runs of, of those that were asked for."""
    administers: bool
    form_key: str
    """Proves that a form comes from a page of this person."""

    @property
    def sees_values(self) -> bool:
        """Whether values of rows are shown. People who may settle rejects need them."""
        return REJECTS in self.may_trigger


def may(visitor: Visitor, action: Action) -> bool:
    return action.dag in visitor.may_trigger and (visitor.administers or not action.administer)


def lacking_right(visitor: Visitor, action: Action) -> str:
    """The right that the person lacks for an action, for a message."""
    if action.dag not in visitor.may_trigger:
        return f"trigger the DAG {action.dag}"
    return "administer, which who may change Airflow's connections has"


def guard(dags: Iterable[str]) -> Callable[..., Visitor]:
    """A dependency of FastAPI. It answers 401 to strangers and 403 to people who may not read. Raises `ImportError`.

    `dags`: the DAGs that `Visitor.may_trigger` is about.
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

    # FastAPI reads the annotation; as a text it would look for it in this module.
    visitor.__annotations__["user"] = GetUserDep
    return _both(Depends(requires_access_dag("GET", DagAccessEntity.TASK_LOGS, param_dag_id=READ_DAG)), visitor)


def _both(first: Any, visitor: Callable[..., Visitor]) -> Callable[..., Visitor]:
    """`visitor`, once `first` has let the person in."""
    from fastapi import Depends

    def guarded(_: None = first, found: Visitor = Depends(visitor)) -> Visitor:  # noqa: B008
        return found

    return guarded
