"""`throttle`: what an application on the master notices of an initial update, held back and not.

pgbench, two clients, changes and reads single rows of one table as fast as it can, while the loaders read another,
large one. Beside it the same without any load. `rate` holds the load to 100,000 rows/s, `sessions` lets it begin a
block only while no more than one session of the application is active, `free` holds nothing back.
"""

import argparse
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import redis
import yaml

from benchmarks import machine
from benchmarks.clients import Clients, finish
from benchmarks.cpu import CpuWatch
from benchmarks.load import Table, started
from benchmarks.ours import capture
from benchmarks.progress import alternate
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import Servers, connect
from sluice import config
from sluice.errors import Terminal
from sluice.executor import Executor
from sluice.load import steps
from sluice.load.update import Update

ROWS = 8_000_000
"""The number of rows of the loaded table: more than the loaders read in the time."""
ACCOUNTS = 100_000
CLIENTS = 2
SECONDS = 8.0
APPLICATION = f"""\\set id random(1, {ACCOUNTS})
\\set other random(1, {ACCOUNTS})
BEGIN;
UPDATE public.accounts SET balance = balance + 1 WHERE id = :id;
SELECT balance FROM public.accounts WHERE id = :other;
END;
"""
LIMITS: dict[str, dict[str, Any]] = {
    "free": {},
    "rate": {"rows_per_second": 100_000},
    "sessions": {"active_sessions": 1},
}
TITLES = {"free": "nothing held back", "rate": "at most 100,000 rows/s", "sessions": "at most one active session"}


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when a load ends before the application does."""
    from spark_jobs.session import SparkExecutor

    chosen = args.figure or tuple(LIMITS)
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(args))
        bench = _Bench(servers, args)
        executor = SparkExecutor("sluice bench: throttle", servers.spark(args.spark_master))
        stack.callback(executor.stop)
        started(executor)
        sides: dict[str, Callable[[], Run]] = {"none": bench.alone} if args.side != "ours" else {}
        if args.side != "reference":
            for name in chosen:
                sides[name] = partial(bench.beside, executor, LIMITS[name])
        runs = alternate("throttle", sides, args.rounds, args.warm_up)
        setting = {**machine.describe(), **servers.describe()}
    figures: list[Figure] = []
    none = runs.get("none", [])
    for name in (name for name in ("rate", "sessions", "free") if name in runs):
        title = f"application beside a load, {TITLES[name]}"
        loaded = max(run.detail["rows_per_second"] for run in runs[name])
        note = f"the load made {loaded:,.0f} rows/s at most"
        figures.append(Figure(title, "transactions/s", runs[name], none, "no load", note=note))
        figures.append(Figure(f"{title}, p95", "ms", _p95(runs[name]), _p95(none), "no load", less_is_better=True))
    return Report("throttle", figures or [Figure("application alone", "transactions/s", [], none)], setting)


class _Bench:
    def __init__(self, servers: Servers, args: argparse.Namespace) -> None:
        self.servers = servers
        self.seconds = max(2.0, SECONDS * args.scale)
        self.table = Table(servers, max(100_000, int(ROWS * args.scale)))
        self.store = redis.from_url(servers.redis_url, decode_responses=True)
        master = self.table.master
        master.execute("CREATE TABLE public.accounts (id int PRIMARY KEY, balance bigint NOT NULL, note text)")
        master.execute(
            f"INSERT INTO public.accounts SELECT g, 0, repeat('x', 80) FROM generate_series(1, {ACCOUNTS}) g".encode()
        )
        master.execute("VACUUM (ANALYZE) public.accounts")
        capture(master, self.table.replication)
        self.clients = Clients(self.table.master_info, servers.folder, APPLICATION, CLIENTS)

    def alone(self) -> Run:
        """The application without any load."""
        self.servers.quiet_down()
        with CpuWatch(self.servers.roots) as watch:
            tps, p95 = self._application()
        return Run(tps, self.seconds, watch.seconds, {"p95": p95, "rows_per_second": 0.0})

    def beside(self, executor: Executor, limits: dict[str, Any]) -> Run:
        """The application while an update loads, from its first block on."""
        from spark_jobs.load import LoadStopped, load_through_outages, stores

        self._limit(limits)
        slave_info = self.servers.database("slave", "sluice_bench")
        update: Update = self.table.update(slave_info)
        steps.begin(update, self.store)
        steps.create_tables(update)
        steps.plan(update, self.store)
        self.servers.quiet_down()
        stop, failures = threading.Event(), list[BaseException]()

        def load() -> None:
            try:
                load_through_outages(update, executor, stop, stores(update))
                failures.append(
                    Terminal(
                        "the load was through before the application: give it a larger --scale",
                        code="bench-side-failed",
                    )
                )
            except LoadStopped:
                pass
            except BaseException as failure:
                failures.append(failure)

        loading = threading.Thread(target=load, name=f"load {uuid.uuid4().hex[:4]}")
        loading.start()
        try:
            with connect(slave_info) as slave:
                while not failures and not _rows(slave):
                    time.sleep(0.05)
                before, began = _rows(slave), time.perf_counter()
                with CpuWatch(self.servers.roots) as watch:
                    tps, p95 = self._application()
                rate = (_rows(slave) - before) / (time.perf_counter() - began)
        finally:
            stop.set()
            loading.join()
        if failures:
            raise failures[0]
        steps.cancel(update, self.store)
        return Run(tps, self.seconds, watch.seconds, {"p95": p95, "rows_per_second": rate})

    def _limit(self, limits: dict[str, Any]) -> None:
        """As a person would, in the file."""
        source = self.table.replication.source
        values = yaml.safe_load(source.read_text())
        values["initial"]["throttle"] = limits
        source.write_text(yaml.safe_dump(values))
        self.table.replication = config.load(str(self.table.replication.prefix))

    def _application(self) -> tuple[float, float]:
        """Transactions a second, and the 95th percentile of their times in ms."""
        logs = self.servers.folder / f"log-{uuid.uuid4().hex[:8]}"
        logs.mkdir()
        output = finish(self.clients.start("-T", str(round(self.seconds)), "--log", f"--log-prefix={logs}/t"))
        times = sorted(times_of(logs))
        shutil.rmtree(logs)
        if not times:
            raise Terminal(f"pgbench made no transaction: {output.strip()[-500:]}", code="bench-side-failed")
        return len(times) / round(self.seconds), times[int(len(times) * 0.95)] / 1000


def times_of(logs: Path) -> list[int]:
    """Microseconds of each transaction that pgbench logged: its third column."""
    return [int(line.split()[2]) for file in logs.iterdir() for line in file.read_text().splitlines()]


def _rows(slave: Any) -> float:
    row = slave.execute("SELECT coalesce(sum(rows), 0)::float8 FROM sluice.bench_blocks").fetchone()
    return float(row[0])


def _p95(runs: list[Run]) -> list[Run]:
    return [Run(run.detail["p95"], run.seconds, run.cpu, run.detail) for run in runs]
