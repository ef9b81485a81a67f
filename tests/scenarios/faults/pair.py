"""The pair of a run: two new databases, captured from the start, and what its apply is told."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.rig.rig import Rig
from tests.scenarios.faults.plan import SPARK_SECONDS, Plan
from tests.scenarios.faults.servers import Servers
from workload import tables

ORDINARY = "applier"
"""Owns its database on the slave, and may nothing else."""
_numbers = itertools.count(1)


@contextmanager
def pair(plan: Plan, servers: Servers, folder: Path) -> Iterator[tuple[Rig, dict[str, Any]]]:
    """Two new databases with the tables, captured; and what the apply is told on stdin: it goes through the proxies."""
    name = f"run_{plan.seed}_{next(_numbers)}"
    account = ORDINARY if plan.ordinary else "postgres"
    if plan.ordinary:
        servers.slave.create_role(account)
    servers.master.create_database(name)
    servers.slave.create_database(name, owner=account)
    infos = iter([servers.master.info(name), servers.slave.info(name, account)])
    former = os.environ.get("SLUICE_REPLICATIONS")
    os.environ["SLUICE_REPLICATIONS"] = str(folder)
    ddl = tables.LOG + (tables.DDL if plan.kept == "slave" else tables.KEYED)
    try:
        rig = Rig.normal(
            lambda: next(infos), servers.redis_url, folder, ddl,
            safe=plan.safe, interval=plan.interval, batch=plan.batch, policy=plan.policy, stage=plan.stage,
            compare=plan.compare, kept=plan.kept,
        )  # fmt: skip
        connections = {
            "m": servers.through_proxy("master", rig.pair.master_info),
            "s": servers.through_proxy("slave", rig.pair.slave_info),
        }
        yield rig, {
            "prefix": "DEMO_", "slave": "dr1", "connections": connections, "redis_url": servers.redis_url,
            "spark": {"remote": servers.spark_url} if plan.spark else {}, "executors": plan.spark,
            "spark_seconds": SPARK_SECONDS,
        }  # fmt: skip
    finally:
        if former is None:
            del os.environ["SLUICE_REPLICATIONS"]
        else:
            os.environ["SLUICE_REPLICATIONS"] = former
        _drop(servers, name)


def reopened(rig: Rig) -> Rig:
    """With new connections, after its servers may have been restarted."""
    return Rig.between(rig.pair, rig.redis_url)


def _drop(servers: Servers, name: str) -> None:
    for server in (servers.master, servers.slave):
        with server.connect(name) as connection:
            prepared = connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", [name]).fetchall()
            for (gid,) in prepared:
                connection.execute(f"ROLLBACK PREPARED '{gid}'")
        with server.connect() as connection:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
            )
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
