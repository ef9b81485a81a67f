"""`load`: the rows of one large table come to an empty slave.

`warm`: the loaders of an initial update, all that they need being up, beside two parallel COPY pipes (`psql | psql`,
binary, each half of the keys), which is as fast as these servers take rows. `cold`: the steps of an initial update and
its load job as its own process, until every row is there; beside pgcopydb, where it is installed.

Both sides fill a table with its primary key in place, as the initial update makes it.
"""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import redis

from benchmarks import cpu, machine
from benchmarks.cpu import CpuWatch
from benchmarks.ours import PREFIX, SLAVE, capture, configure
from benchmarks.progress import alternate
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import DATABASES, Servers, connect
from devstack.home import REPOSITORY
from devstack.postgres import binary
from devstack.postgres_releases import binaries
from sluice.errors import Terminal
from sluice.executor import Executor
from sluice.load import steps
from sluice.load.update import Update
from sluice.pair import Pair
from spark_jobs.endpoint import Endpoint
from workload import mixes
from workload.pgbench import environment

TABLE = "public.sales"
DDL = f"""
CREATE TABLE {TABLE} (
    id bigint PRIMARY KEY,
    customer text NOT NULL,
    amount numeric(12,2) NOT NULL,
    quantity integer NOT NULL,
    status text NOT NULL,
    note text,
    created timestamptz NOT NULL
)"""
FILL = f"""
INSERT INTO {TABLE} SELECT i, 'customer ' || i % 977, i % 10000 + 0.25, i % 7, 'closed',
    CASE WHEN i % 5 <> 0 THEN 'note ' || i END, timestamptz '2020-01-01 10:00+00' + i * interval '1.000001 second'
FROM generate_series(1, {{rows}}) AS s (i)"""
GOAL = 0.9


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when a slave's table differs from the master's."""
    chosen = args.figure or ("warm",)
    figures: list[Figure] = []
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(args))
        if "warm" in chosen:
            figures.append(_warm(servers, args))
        if "cold" in chosen:
            figures.append(_cold(servers, args))
        import pyspark

        setting = {**machine.describe(), **servers.describe(), "Spark": pyspark.__version__}
    return Report("load", figures, setting)


class Table:
    """The full table on the master, and an empty database on the slave for each run."""

    def __init__(self, servers: Servers, rows: int) -> None:
        self.servers, self.rows = servers, rows
        self.master_info = servers.database("master", DATABASES[0])
        self.master = connect(self.master_info)
        self.master.execute(DDL)
        self.master.execute(FILL.format(rows=rows).encode())
        self.master.execute(f"VACUUM (ANALYZE) {TABLE}")
        self.digest = mixes.digest(self.master, TABLE)
        self.replication = configure(servers.folder / "replications")
        capture(self.master, self.replication)

    @property
    def title(self) -> str:
        return f"{self.rows:,} rows of seven columns"

    def measure(self, load: Callable[[Any], None], prepare: Callable[[Any], Any], roots: cpu.Roots) -> Run:
        """One run: an empty database, `prepare` untimed, `load` timed, the rows compared."""
        slave_info = self.servers.database("slave", DATABASES[0])
        prepared = prepare(slave_info)
        self.servers.quiet_down()
        with CpuWatch(self.servers.roots, roots) as watch:
            begun = time.perf_counter()
            load(prepared)
            seconds = time.perf_counter() - begun
        with connect(slave_info) as slave:
            found = mixes.digest(slave, TABLE)
        if found != self.digest:
            raise Terminal(
                f"the slave differs from the master: {found} instead of {self.digest}", code="bench-side-failed"
            )
        return Run(self.rows / seconds, seconds, watch.seconds, {"rows": self.rows})

    def update(self, slave_info: Any) -> Update:
        """An initial update to that slave."""
        connections = {"master": self.master_info, "slave": slave_info}
        return Update.named(Pair.of(self.replication, SLAVE, connections), f"bench {uuid.uuid4().hex[:8]}")


def _warm(servers: Servers, args: argparse.Namespace) -> Figure:
    from spark_jobs.session import SparkExecutor

    table = Table(servers, max(1000, int(2_000_000 * args.scale)))

    def empty(slave_info: Any) -> Any:
        with connect(slave_info) as slave:
            slave.execute(DDL)
        return slave_info

    sides: dict[str, Callable[[], Run]] = {}
    with ExitStack() as stack:
        if args.side != "reference":
            executor = SparkExecutor("sluice bench: load", servers.spark(args.spark_master))
            stack.callback(executor.stop)
            started(executor)
            sides["ours"] = lambda: by_executor(table, executor, lambda: {"driver": os.getpid()})
        if args.side != "ours":
            sides["reference"] = lambda: table.measure(
                lambda info: pipes(table.master_info, info, table.rows, servers), empty, lambda: {"pipes": os.getpid()}
            )
        runs = alternate("load warm", sides, args.rounds, args.warm_up)
    title = f"{table.title}, everything up"
    ours, reference = runs.get("ours", []), runs.get("reference", [])
    return Figure(title, "rows/s", ours, reference, "two COPY pipes", goal=GOAL)


def by_executor(table: Table, executor: Executor, roots: cpu.Roots) -> Run:
    """One run of the loaders of an initial update, in a session of Spark that is up."""
    from spark_jobs.load import load_through_outages, stores

    store = redis.from_url(table.servers.redis_url, decode_responses=True)
    never = threading.Event()

    def prepared(slave_info: Any) -> Update:
        update = table.update(slave_info)
        steps.begin(update, store)
        steps.create_tables(update)
        steps.plan(update, store)
        return update

    return table.measure(lambda update: load_through_outages(update, executor, never, stores(update)), prepared, roots)


def _cold(servers: Servers, args: argparse.Namespace) -> Figure:
    table = Table(servers, max(1000, int(20_000_000 * args.scale)))
    store = redis.from_url(servers.redis_url, decode_responses=True)
    endpoint = servers.spark(args.spark_master) if args.side != "reference" else Endpoint()
    sides: dict[str, Callable[[], Run]] = {}

    def update(slave_info: Any) -> None:
        """The steps of the DAG, until every row is there."""
        wanted = table.update(slave_info)
        steps.begin(wanted, store)
        steps.create_tables(wanted)
        steps.plan(wanted, store)
        load_job(wanted, servers, endpoint)

    def as_it_is(slave_info: Any) -> Any:
        return slave_info

    def this_process() -> Mapping[str, int]:
        return {"clients": os.getpid()}

    if args.side != "reference":
        sides["ours"] = lambda: table.measure(update, as_it_is, this_process)
    program = shutil.which("pgcopydb")
    if program and args.side != "ours":
        sides["reference"] = lambda: table.measure(
            lambda info: pgcopydb(program, table.master_info, info, servers), as_it_is, this_process
        )
    runs = alternate("load cold", sides, args.rounds, args.warm_up)
    title = f"{table.title}, every start counted"
    note = "" if program else "pgcopydb is not on the PATH: nothing to compare with"
    return Figure(title, "rows/s", runs.get("ours", []), runs.get("reference", []), "pgcopydb", goal=1.0, note=note)


def started(executor: Executor) -> None:
    """Returns once there are the executors that it has at all, and they know the library."""
    executor.map(lambda _: importlib.import_module("sluice.load.loader").__name__, executor.parallelism)


def pipes(master: Any, slave: Any, rows: int, servers: Servers) -> None:
    """Two COPY pipes side by side, half of the keys each. Raises `bench-side-failed`."""
    middle = rows // 2
    running: list[subprocess.Popen[bytes]] = []
    for condition in (f"id <= {middle}", f"id > {middle}"):
        out = f"COPY (SELECT * FROM {TABLE} WHERE {condition} ORDER BY id) TO STDOUT (FORMAT binary)"
        source = _psql(out, environment(master, servers.folder), stdout=subprocess.PIPE)
        into = f"COPY {TABLE} FROM STDIN (FORMAT binary)"
        running += [source, _psql(into, environment(slave, servers.folder), stdin=source.stdout)]
        assert source.stdout is not None
        source.stdout.close()
    if [process.wait() for process in running] != [0] * len(running):
        raise Terminal("a COPY pipe failed; see what psql said above", code="bench-side-failed")


def load_job(update: Update, servers: Servers, endpoint: Endpoint) -> None:
    """`python -m spark_jobs.load`, from its start to its end. Raises `bench-side-failed`."""
    task = {
        "prefix": str(PREFIX),
        "slave": SLAVE,
        "connections": {"master": update.master_info.to_dict(), "slave": update.slave_info.to_dict()},
        "redis_url": servers.redis_url,
        "spark": {"remote": endpoint.remote},
        "update_id": update.update_id,
    }
    path = f"{REPOSITORY / 'plugins'}{os.pathsep}{REPOSITORY}"
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.load"], cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": path},
        input=json.dumps(task).encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Terminal(
            f"The load job ended with status {done.returncode}: {done.stdout.decode()[-1500:]}",
            code="bench-side-failed",
        )


def pgcopydb(program: str, master: Any, slave: Any, servers: Servers) -> None:
    """A whole copy of the table with two jobs. Raises `bench-side-failed`."""
    given = dict(environment(master, servers.folder))
    environment(slave, servers.folder)
    given["PATH"] = f"{binaries()}{os.pathsep}{given['PATH']}"  # pg_dump of the servers' version
    for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER"):
        del given[name]
    source, target = (f"postgresql://{i.user}@{i.host}:{i.port}/{i.database}" for i in (master, slave))
    work = servers.folder / f"pgcopydb-{uuid.uuid4().hex[:8]}"
    filters = servers.folder / "pgcopydb.ini"
    filters.write_text(f"[include-only-table]\n{TABLE}\n")
    command = [
        program, "clone", "--source", source, "--target", target, "--dir", str(work), "--table-jobs", "2",
        "--index-jobs", "2", "--filters", str(filters), "--split-tables-larger-than", "200MB",
    ]  # fmt: skip
    done = subprocess.run(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    shutil.rmtree(work, ignore_errors=True)
    if done.returncode != 0:
        raise Terminal(
            f"pgcopydb ended with status {done.returncode}: {done.stdout.decode()[-1500:]}", code="bench-side-failed"
        )


def _psql(statement: str, given: Mapping[str, str], **streams: Any) -> "subprocess.Popen[bytes]":
    command = [str(binary("psql")), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement]
    return subprocess.Popen(command, env=dict(given), **streams)
