"""An application's database, replicated to a slave that is compared with it after each of the application's steps."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from sluice.capture import reconcile, resources, wildcards
from sluice.coordination import redis_store
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.load_snapshot import LoadSnapshot
from sluice.load.loader import load_worker
from sluice.load.selection import Selection
from sluice.load.update import Update
from sluice.model.connection import ConnectionInfo
from sluice.model.table_state import TableState
from sluice.vendors.postgres import catalog
from tests.rig.loaders import in_threads
from tests.rig.rig import Rig, rows_of
from tests.scenarios.mariadb import definitions_alike
from tests.scenarios.mariadb.rig import Rig as MariaRig

WAIT_SECONDS = 600.0
SCHEMA = "sluice"
"""Of Sluice's own objects."""


class Replicated:
    """A pair that is NORMAL, with its apply; the application's account only owns the database."""

    def __init__(self, rig: Rig | MariaRig, application: ConnectionInfo):
        self.rig = rig
        self.application = application
        self.number = 0

    @property
    def environment(self) -> dict[str, str]:
        """How the application reaches the master, as PostgreSQL's own programs are told."""
        info = self.application
        found = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "AIRFLOW", "SLUICE"))}
        return found | {
            "PGHOST": info.host,
            "PGPORT": str(info.port),
            "PGDATABASE": info.database,
            "PGUSER": info.user,
            "PGPASSWORD": info.password,
            "PGSSLMODE": "disable",
        }

    @contextmanager
    def following(self) -> Iterator[None]:
        """Loads the slave; inside, its apply runs."""
        self.reconcile()
        update = self.load()
        with self.rig.apply():
            if isinstance(self.rig, MariaRig):
                self.rig.await_current(WAIT_SECONDS)
            else:
                self.rig.await_normal(WAIT_SECONDS)
            steps.finish(update)
            self.expect_equal("the load")
            yield

    def reconcile(self) -> None:
        """What the DAGs install_resources and reconcile_tables do on the master."""
        pair, master = self.rig.pair, self.rig.master
        replication = pair.replication
        resources.install(master, pair.prefix, replication.master.schema)
        wildcards.note(master, replication)
        configured = replication.resolve(catalog.tables(master))
        report = reconcile.reconcile(master, pair.prefix, replication.master.schema, configured)
        assert not report.refused, report.refused

    def load(self, **choice: Any) -> Update:
        """An initial update up to the last block."""
        self.number += 1
        store = redis_store.connect(self.rig.redis_url)
        update = Update.named(self.rig.pair, f"update {self.number}", Selection.from_dict(choice))
        steps.begin(update, store)
        steps.create_tables(update)
        steps.plan(update, store)
        with LoadJob(update) as job, LoadSnapshot(update) as held:
            in_threads(job, partial(load_worker, update), 2, lambda: (job.tick(), held.check()))
        steps.arrive(update, store)
        return update

    def expect_equal(self, after: str) -> None:
        """Loads what joined; rows, types, indexes and constraints are the master's, and nothing was refused."""
        self.reconcile()
        self.rig.master.execute(f"SELECT {SCHEMA}.demo_check_structure()".encode())
        self.rig.await_current(WAIT_SECONDS)
        states = self.rig.checkpoint.tables
        assert not states.reasons, (after, states.reasons)
        if joined := [f"{one.schema}.{one.name}" for one in states if states.state(one) is TableState.ABSENT]:
            update = self.load(tables=joined)
            self.rig.await_that(lambda: not self.rig.checkpoint.tables.not_ready, WAIT_SECONDS)
            steps.finish(update)
            self.rig.await_current(WAIT_SECONDS)
        assert not self.rig.checkpoint.tables.not_ready, (after, self.rig.checkpoint.tables)
        for differences in (self.row_differences, self.definition_differences):
            try:
                self.rig.await_that(partial(self._none, differences), WAIT_SECONDS / 5)
            except AssertionError:
                found = differences()
                assert not found, (after, found)

    @staticmethod
    def _none(differences: Callable[[], object]) -> bool:
        try:
            return not differences()
        except psycopg.errors.UndefinedColumn:
            return False  # a table that was locked is compared a moment later

    def row_differences(self) -> Mapping[str, object]:
        if isinstance(self.rig, MariaRig):
            return self.rig.differences()
        found = {}
        for table in self.rig.tables(self.rig.master):
            master, slave = (rows_of(on, table, self.rig.master) for on in (self.rig.master, self.rig.slave))
            if master != slave:
                ours, its = [row for row in master if row not in slave], [row for row in slave if row not in master]
                found[str(table)] = ours[:3], its[:3], len(master), len(slave)
        return found

    def definition_differences(self) -> list[str]:
        if isinstance(self.rig, MariaRig):
            return definitions_alike.differing(self.rig)
        master, slave = (
            {tuple(_SPELLINGS.sub("", text) for text in row) for row in on.execute(DEFINITIONS.encode()).fetchall()}
            for on in (self.rig.master, self.rig.slave)
        )
        return [f"only on the master: {one}" for one in sorted(master - slave)] + [
            f"only on the slave: {one}" for one in sorted(slave - master)
        ]


_SPELLINGS = re.compile(r"::(text|character varying)(\[\])?|[()]")
"""What PostgreSQL writes otherwise after it has read its own text of an expression."""
DEFINITIONS = r"""
WITH t AS (
    SELECT c.oid, c.oid::regclass::text AS name FROM pg_class AS c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname !~ '^demo_'
)
SELECT t.name, 'column ' || a.attname, format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
FROM t JOIN pg_attribute AS a ON a.attrelid = t.oid WHERE a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT t.name, 'index', pg_get_indexdef(i.indexrelid) || CASE WHEN i.indisvalid THEN '' ELSE ' INVALID' END
FROM t JOIN pg_index AS i ON i.indrelid = t.oid WHERE NOT i.indisprimary
UNION ALL
SELECT t.name, 'constraint ' || o.conname, regexp_replace(pg_get_constraintdef(o.oid), ' (ON|(NOT )?DEFERRABLE|INITIALLY) .*| (NOT )?DEFERRABLE', '')
FROM t JOIN pg_constraint AS o ON o.conrelid = t.oid WHERE o.contype NOT IN ('n', 'p') AND o.convalidated
"""  # noqa: E501
"""Columns, indexes and valid constraints of all tables, as PostgreSQL writes them. Foreign keys of a slave can be
deferred, and have no actions. The primary key of a table that was made later has its own name there, and may stand
for the unique index that is the master's key."""


def replicated(
    kind: str,
    database: Callable[..., ConnectionInfo],
    mariadb: Callable[[], ConnectionInfo],
    redis_url: str,
    folder: Path,
    superuser: Callable[[str], ConnectionInfo],
    *,
    lossy: str = "",
) -> Replicated:
    """`kind`: the slave's vendor. `lossy`: columns whose types MariaDB has not, as the configuration names them."""
    application = database(role=True)
    master = superuser(application.database)
    rig: Rig | MariaRig
    if kind == "mariadb":
        options = {"lossy_columns": lossy} if lossy else {}
        rig = MariaRig.build(lambda: master, mariadb, redis_url, folder, "SELECT", schema=SCHEMA, **options)
    else:
        rig = Rig.empty(database, redis_url, folder, master=master, slave=database(), schema=SCHEMA, interval=0.1)
        resources.install(rig.master, rig.pair.prefix, SCHEMA)
    return Replicated(rig, application)


def run(command: list[str | Path], environment: Mapping[str, str], folder: Path) -> str:
    """What a program of the application printed; it must succeed."""
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def installed_from_pypi(folder: Path, *packages: str) -> Path:
    """The Python of a new environment with the newest releases of the packages."""
    run([sys.executable, "-m", "venv", folder / "venv"], os.environ, folder)
    python = folder / "venv" / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", *packages], os.environ, folder)
    return python


def as_application(pair: Replicated) -> "psycopg.Connection[Any]":
    """A session of the application's account, in autocommit mode; a plan that it kept would not survive migrations."""
    info = pair.application
    return psycopg.connect(
        host=info.host, port=info.port, dbname=info.database, user=info.user, password=info.password,
        autocommit=True, prepare_threshold=None,
    )  # fmt: skip
