"""The databases of a task, reached without Airflow's connections."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from sluice.airflow.purging import Purge
from sluice.airflow.task_context import TaskContext
from sluice.configuration.model import Endpoint, Replication, SlaveConfig
from sluice.coordination import redis_store
from sluice.model.connection import ConnectionInfo


@dataclass(frozen=True)
class DirectWork(TaskContext):
    """`infos`: the databases by the name of their connection."""

    infos: Mapping[str, ConnectionInfo] = field(default_factory=dict)
    redis_url: str = ""

    def info(self, place: Endpoint | SlaveConfig) -> ConnectionInfo:
        return self.infos[place.conn_id]

    @cached_property
    def redis(self) -> Any:
        return redis_store.connect(self.redis_url)


def housekeeping(replication: Replication, infos: Mapping[str, ConnectionInfo], redis_url: str) -> DirectWork:
    return DirectWork(replication, None, {"dag": SimpleNamespace(dag_id="housekeeping")}, (), infos, redis_url)


def purge(work: DirectWork) -> int:
    """Runs the task `purge_items`; returns the number of deleted changes, also 0 if a slave holds them."""
    with work.master() as master:
        done = Purge.of(work, master).run()
    return 0 if done.startswith("held: ") else int(done.split(" ")[0].replace(",", ""))
