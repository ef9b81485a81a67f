"""`rest`: pairs while nothing changes: memory and CPU of all that runs for them, beside the databases and Airflow.

One master has all the slaves. Each pair's apply is a query of Spark, as by default; all share one Connect server and
one Redis, which are counted.
"""

import argparse
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

from benchmarks import machine, progress
from benchmarks.cpu import CpuWatch, below
from benchmarks.ours import PREFIX, begin, capture, start_query, stop_query
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import DATABASES, Servers, connect
from devstack.demo.memory import proportional
from devstack.process import await_true
from sluice import config
from sluice.configuration.model import DEFAULT_SCHEMA, Replication
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.apply_query import ApplyQuery
from sluice.coordination.records import Status
from sluice.errors import Terminal
from sluice.pair import Pair
from sluice.vendors.postgres.source.queue import PostgresQueue
from spark_jobs.endpoint import Endpoint
from workload import mixes

FIGURES = {"1": 1, "10": 10, "50": 50}
"""Numbers of pairs; ten are measured where none is named."""
SETTLE_SECONDS = 75.0
"""Before the first run: what starts has work, and Spark ends Python workers that were idle for a minute."""
SECONDS = 60.0
"""For how many seconds of a run the CPU is counted."""
START_SECONDS = 300.0
"""The seconds until all pairs must apply outside of safe mode."""
MEMORY_GOAL, CPU_GOAL = 1100.0, 15.0
"""MB and percent of a core, of ten pairs."""


def run(args: argparse.Namespace) -> Report:
    """Memory and CPU of the same runs, for each number of pairs."""
    seconds = min(SECONDS, max(2.0, SECONDS * args.scale))
    figures: list[Figure] = []
    with Servers(args) as servers:
        endpoint = servers.spark(args.spark_master)
        for name in args.figure or ("10",):
            count = max(1, round(FIGURES[name] * min(1.0, args.scale)))
            progress.say(f"starts {count} pairs")
            with pairs(servers, endpoint, count):
                time.sleep(min(SETTLE_SECONDS, SETTLE_SECONDS * args.scale))
                looks = [_look(servers, seconds) for _ in range(args.warm_up + args.rounds)][args.warm_up :]
            memory = [Run(sum(parts.values()), took, cpu, parts) for parts, cpu, took in looks]
            busy = [Run(100 * sum(cpu.values()) / took, took, cpu) for _, cpu, took in looks]
            title = f"{count} pairs at rest" if count > 1 else "a pair at rest"
            goals = (MEMORY_GOAL, CPU_GOAL) if count <= FIGURES["10"] else (None, None)
            figures += [
                Figure(
                    f"{title}, memory", "MB", memory, less_is_better=True, at_most=goals[0], note=_shown(memory[-1])
                ),
                Figure(f"{title}, CPU", "% of a core", busy, less_is_better=True, at_most=goals[1]),
            ]
        setting = {**machine.describe(), **servers.describe()}
    return Report("rest", figures, setting)


@contextmanager
def pairs(servers: Servers, endpoint: Endpoint, count: int) -> Iterator[None]:
    """That many applies that have nothing to do. Raises `bench-side-failed`."""
    names = [f"dr{number}" for number in range(1, count + 1)]
    infos = {"master": servers.database("master", DATABASES[0])}
    infos |= {name: servers.database("slave", f"{DATABASES[0]}_{name}") for name in names}
    replication = _configured(servers.folder, names)
    store = redis.from_url(servers.redis_url, decode_responses=True)
    with ExitStack() as stack:
        master = stack.enter_context(connect(infos["master"]))
        master.execute(mixes.DDL)
        capture(master, replication)
        for name in names:
            with connect(infos[name]) as slave:
                slave.execute(mixes.DDL)
                with slave.transaction():
                    queue = PostgresQueue(master, PREFIX, DEFAULT_SCHEMA)
                    begin(CheckpointStore(slave, PREFIX, DEFAULT_SCHEMA, name), queue)
        queries = {name: ApplyQuery(store, PREFIX, name) for name in names}
        statuses = {name: Status(store, PREFIX, name) for name in names}
        for name, query in queries.items():
            store.delete(statuses[name].key)  # the last words of an apply of the figure before
            record = start_query(query, Pair.of(replication, name, infos), servers.redis_url, endpoint)
            stack.callback(stop_query, query, record, endpoint)
        for name, status in statuses.items():
            if not await_true(lambda status=status: _rests(status.read()), START_SECONDS):  # type: ignore[misc]
                raise Terminal(
                    f"{name} does not come to rest: " + "\n".join(queries[name].last_lines(15)),
                    code="bench-side-failed",
                )
        yield


def _configured(folder: Path, names: list[str]) -> Replication:
    place = folder / "replications"
    place.mkdir(exist_ok=True)
    slaves = "".join(f"  {name}: {{conn_id: {name}}}\n" for name in names)
    text = f"prefix: {PREFIX}\nmaster: {{conn_id: master}}\nslaves:\n{slaves}tables: {{'public.*': {{}}}}\n"
    (place / "BENCH.yaml").write_text(text + "apply: {checkpoint_interval: 1}\n")
    os.environ["SLUICE_REPLICATIONS"] = str(place)
    return config.load(str(PREFIX))


def _rests(status: Mapping[str, object]) -> bool:
    """Whether the apply has nothing to do any more."""
    return status.get("activity") == "applying" and status.get("safe_mode") == "off"


def _look(servers: Servers, seconds: float) -> tuple[dict[str, float], dict[str, float], float]:
    """MB by part at the end of so many seconds, CPU seconds by part, and how long it took."""

    def roots() -> dict[str, int]:
        return {part: pid for part, pid in servers.roots().items() if part == "Redis" or part.startswith("Spark")}

    with CpuWatch(roots) as watch:
        began = time.perf_counter()
        time.sleep(seconds)
        took = time.perf_counter() - began
    memory: dict[str, float] = {}
    for part, root in roots().items():
        for pid in below(root):
            kind = "workers of Spark" if part.startswith("Spark") and pid != root else part
            memory[kind] = memory.get(kind, 0.0) + proportional(pid) / 1e6
    return memory, dict(watch.seconds), took


def _shown(run: Run) -> str:
    return ", ".join(f"{part} {size:.0f} MB" for part, size in run.detail.items())
