"""The context of a task: a replication, one or several of its slaves, and their connections."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from airflow.sdk import Context
from redis import Redis

from sluice import config
from sluice.airflow import connections
from sluice.configuration.model import Endpoint, Replication, SlaveConfig
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.database.registry import master_of, reach
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.checkpoint import Checkpoint
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName

UPDATE = "update"
"""Param of a run that continues an update of several slaves for one of them: the id of the update."""


class ReasonMissing(Terminal):
    """The form gives no reason, and it must."""


@dataclass(frozen=True)
class TaskContext:
    """Created in every task from the run's params; reads configuration and connections each time."""

    replication: Replication
    slave_name: str | None
    context: Context
    slave_names: tuple[str, ...] = ()
    """All slaves of the run; `slave_name` is None if there are several."""

    @classmethod
    def of(cls, context: Context) -> "TaskContext":
        """Raises `UnknownPrefix`, `UnknownSlave`, `ConfigError`."""
        params = context["params"]
        replication = config.load(params["prefix"])
        names = tuple(replication.slave(name).name for name in listed(params.get("slave")))
        return cls(replication, names[0] if len(names) == 1 else None, context, names)

    @classmethod
    def of_prefix(cls, prefix: str, context: Context) -> "TaskContext":
        """A replication without a slave. Raises `UnknownPrefix`, `ConfigError`."""
        return cls(config.load(prefix), None, context)

    @property
    def prefix(self) -> Prefix:
        return self.replication.prefix

    @property
    def slave(self) -> SlaveConfig:
        assert self.slave_name is not None, "this DAG has no slave"
        return self.replication.slave(self.slave_name)

    def of_slave(self, name: str) -> "TaskContext":
        """The context of one of the slaves."""
        return TaskContext(self.replication, name, self.context, (name,))

    def person(self, nobody: str) -> str:
        """The person who triggered the run; `nobody` if no person did."""
        return str(getattr(self.context.get("dag_run"), "triggering_user_name", None) or nobody)

    @property
    def update_id(self) -> str:
        """The id of the initial update: the id of the run that began it."""
        return update_id(self.context)

    @cached_property
    def connections(self) -> dict[str, ConnectionInfo]:
        """Connections by conn_id, of the master and of the slave if there is one."""
        return connections.all_of(self.replication, *([self.slave_name] if self.slave_name else []))

    def info(self, endpoint: Endpoint | SlaveConfig) -> ConnectionInfo:
        """The connection of a master or slave. Raises `connection-missing`, `connection-unusable`,
        `connections-unavailable`."""
        if isinstance(endpoint, Endpoint) and endpoint.stream:
            return endpoint.stream
        return self._info(endpoint.conn_id, endpoint.vendor)

    def _info(self, conn_id: str, vendor: str) -> ConnectionInfo:
        info = connections.info(conn_id, vendor, str(self.replication.source))
        return replace(info, mask=self.replication.verify.mask)

    @cached_property
    def redis(self) -> Redis:
        return redis_store.connect(connections.redis_url())

    @contextmanager
    def at(self, endpoint: Endpoint | SlaveConfig) -> Iterator[Session]:
        """A session in autocommit mode on the master or a slave."""
        with reach(self.info(endpoint), f"sluice {self.prefix} {self.context['dag'].dag_id}") as connection:
            yield connection

    @contextmanager
    def master(self) -> Iterator[Session]:
        """A session on the master, see `at`."""
        with self.at(self.replication.master) as connection:
            yield connection

    @contextmanager
    def rows(self) -> Iterator[Session]:
        """A session where the master's rows are: beside a log its database, else as `master`."""
        master = self.replication.master
        info = self._info(master.conn_id, master.database) if master.rows_beside_log else self.info(master)
        with reach(info, f"sluice {self.prefix} {self.context['dag'].dag_id}") as connection:
            yield connection

    def checkpoint(self, slave: SlaveConfig, *, secure: bool = False) -> Checkpoint | None:
        """The checkpoint of a slave, see `checkpoint_of`."""
        application = f"sluice {self.prefix} {self.context['dag'].dag_id}"
        return checkpoint_of(self.info(slave), self.prefix, slave.name, slave.schema, application, secure=secure)

    def existing_tables(self, master: Session) -> list[TableName]:
        return master_of(self.replication.master.database).rows.tables(master)

    def __str__(self) -> str:
        return f"{self.prefix} → {self.slave_name}" if self.slave_name else str(self.prefix)


def listed(value: object) -> tuple[str, ...]:
    """The distinct names in a param: a list, or a text with commas."""
    parts = value if isinstance(value, list | tuple) else str(value or "").split(",")
    return tuple(dict.fromkeys(name for part in parts if (name := str(part).strip())))


def update_id(context: Context) -> str:
    """The id of the run that began the initial update: of this run, or of the run for several slaves that it
    continues."""
    return str(context["params"].get(UPDATE) or context["run_id"])


def checkpoint_of(
    info: ConnectionInfo, prefix: Prefix, slave: str, schema: str, application: str, *, secure: bool = False
) -> Checkpoint | None:
    """The checkpoint of a slave; None if no initial update was ever started.

    `secure`: makes it durable against a crash of the slave. Raises `DatabaseUnreachable`, `DatabaseRefused`.
    """
    with reach(info, application) as connection:
        store = CheckpointStore(connection, prefix, schema, slave)
        checkpoint: Checkpoint | None = store.read()
        if secure and checkpoint is not None:
            store.secure()
        return checkpoint
