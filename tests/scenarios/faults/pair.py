"""The pair of a run: two new databases, captured from the start; the input of its apply; reads of the slave."""

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from devstack.mariadb import MariaDBServer
from devstack.postgres import PostgresServer
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import connect
from tests.rig.rig import Rig
from tests.scenarios.faults import audit, binlog
from tests.scenarios.faults.audit import Commit
from tests.scenarios.faults.plan import CLUSTER_SECONDS, SPARK_SECONDS, Plan
from tests.scenarios.faults.reader import MariaDBReader, PostgresReader, Reader
from tests.scenarios.faults.servers import Servers
from tests.scenarios.mariadb.rig import Rig as MariaDBRig
from workload import tables

ORDINARY = "applier"
"""Owns its database on the slave, and may nothing else."""
_numbers = itertools.count(1)


class Ends(ABC):
    """Both databases of a run, and what differs between the vendors of the slave."""

    rig: Rig | MariaDBRig

    def __init__(self, servers: Servers, name: str):
        self.servers = servers
        self.name = name

    @abstractmethod
    def make(self, plan: Plan, folder: Path) -> None:
        """Two databases with the tables, captured; the slave is NORMAL."""

    @abstractmethod
    def reopen(self) -> None:
        """New connections, after servers may have been restarted."""

    @abstractmethod
    def begin_audit(self) -> None:
        """Keeps what is committed on the slave from now on for `commits`."""

    @abstractmethod
    def commits(self) -> list[Commit]: ...

    @abstractmethod
    def reader(self) -> Reader: ...

    @abstractmethod
    def drop(self) -> None: ...

    def differences(self) -> dict[str, tuple[Any, Any]]:
        """For each different table some rows that only the master has, and some that only the slave has."""
        return {table: found[:2] for table, found in self.rig.differences().items()}

    @abstractmethod
    def rejected(self) -> list[str]:
        """The reasons of the changes in REJECTS."""

    def _master(self) -> ConnectionInfo:
        self.servers.master.create_database(self.name)
        return self.servers.master.info(self.name)

    def _drop_master(self) -> None:
        _drop_postgres(self.servers.master, self.name)


class PostgresEnds(Ends):
    """A PostgreSQL as the slave."""

    rig: Rig

    @property
    def _slave(self) -> PostgresServer:
        assert isinstance(self.servers.slave, PostgresServer)
        return self.servers.slave

    def make(self, plan: Plan, folder: Path) -> None:
        account = ORDINARY if plan.ordinary else "postgres"
        if plan.ordinary:
            self._slave.create_role(account)
        self._slave.create_database(self.name, owner=account)
        infos = iter([self._master(), self._slave.info(self.name, account)])
        self.rig = Rig.normal(
            lambda **_: next(infos), self.servers.redis_url, folder,
            tables.LOG + (tables.DDL if plan.kept == "slave" else tables.KEYED),
            safe=plan.safe, interval=plan.interval, batch=plan.batch, policy=plan.policy, stage=plan.stage,
            compare=plan.compare, kept=plan.kept,
        )  # fmt: skip

    def reopen(self) -> None:
        self.rig = Rig.between(self.rig.pair, self.rig.redis_url)

    @property
    def _slot(self) -> str:
        return f"audit_{self.name}"

    def begin_audit(self) -> None:
        with self._slave.connect(self.name) as admin:
            audit.begin(admin, self._slot)

    def commits(self) -> list[Commit]:
        with self._slave.connect(self.name) as admin:
            return list(audit.commits(admin, self._slot))

    def reader(self) -> Reader:
        return PostgresReader(self.rig.pair.slave_info)

    def rejected(self) -> list[str]:
        return [reason for (reason,) in self.rig.slave.execute("SELECT reason FROM public.demo_rejects").fetchall()]

    def drop(self) -> None:
        self._drop_master()
        _drop_postgres(self._slave, self.name)


class MariaDBEnds(Ends):
    """A MariaDB as the slave."""

    rig: MariaDBRig

    @property
    def _slave(self) -> MariaDBServer:
        assert isinstance(self.servers.slave, MariaDBServer)
        return self.servers.slave

    def make(self, plan: Plan, folder: Path) -> None:
        self._slave.create_account(ORDINARY, self.name)
        slave = self._slave.info(self.name, ORDINARY)
        options = {"safe_mode": "true"} if plan.safe else {"on_conflict": plan.policy}
        if not plan.safe and plan.policy != "overwrite":
            options["compare_values"] = str(plan.compare).lower()
        self.rig = MariaDBRig.build(
            self._master, lambda: slave, self.servers.redis_url, folder, tables.LOG + tables.DDL,
            stage=plan.stage, batch=plan.batch, **options,
        )  # fmt: skip
        update = self.rig.load()
        with self.rig.apply():
            self.rig.await_current()
            self.rig.finish(update)

    def reopen(self) -> None:
        ends = self.rig.pair
        master = connect(ends.master_info, application="test", autocommit=True)
        self.rig = MariaDBRig(ends, self.rig.redis_url, master, MariaDBRig.connect_slave(ends.slave_info))

    def begin_audit(self) -> None:
        binlog.begin(self._slave)

    def commits(self) -> list[Commit]:
        return list(binlog.commits(self._slave, self.name))

    def reader(self) -> Reader:
        return MariaDBReader(self._slave.info(self.name))

    def rejected(self) -> list[str]:
        return [reason for (reason,) in self.rig.slave.run("SELECT reason FROM demo_rejects")]

    def drop(self) -> None:
        self._drop_master()
        self._slave.drop_account(ORDINARY, self.name)


@contextmanager
def pair(plan: Plan, servers: Servers, folder: Path) -> Iterator[tuple[Ends, dict[str, Any]]]:
    """Two new databases with the tables, captured; and what the apply is told on stdin: it goes through the proxies."""
    name = f"run_{plan.seed}_{next(_numbers)}"
    ends = (MariaDBEnds if plan.mariadb else PostgresEnds)(servers, name)
    former = os.environ.get("SLUICE_REPLICATIONS")
    os.environ["SLUICE_REPLICATIONS"] = str(folder)
    try:
        ends.make(plan, folder)
        connections = {
            "m": servers.through_proxy("master", ends.rig.pair.master_info),
            "s": servers.through_proxy("slave", ends.rig.pair.slave_info),
        }
        yield ends, {
            "prefix": "DEMO_", "slave": "dr1", "connections": connections, "redis_url": servers.redis_url,
            "spark": {"remote": servers.spark_url(cluster=plan.cluster)} if plan.spark else {},
            "executors": plan.spark, "spark_seconds": CLUSTER_SECONDS if plan.cluster else SPARK_SECONDS,
        }  # fmt: skip
    finally:
        if former is None:
            del os.environ["SLUICE_REPLICATIONS"]
        else:
            os.environ["SLUICE_REPLICATIONS"] = former
        ends.drop()


def _drop_postgres(server: PostgresServer, name: str) -> None:
    with server.connect(name) as connection:
        prepared = connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", [name]).fetchall()
        for (gid,) in prepared:
            connection.execute(f"ROLLBACK PREPARED '{gid}'")
    with server.connect() as connection:
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
        )
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
