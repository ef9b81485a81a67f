"""`rest`: ten pairs while nothing changes: memory and CPU of all that runs for them, beside the databases and Airflow.

One master has ten slaves. Each pair has an apply and the process that watches it, started as Airflow's task starts
them; all share one Connect server and one Redis, which are counted.
"""

import argparse
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import redis

from benchmarks import machine
from benchmarks.cpu import CpuWatch, below
from benchmarks.ours import PREFIX, begin, capture
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import DATABASES, Servers, connect
from benchmarks.side import SideFailed
from devstack.demo.memory import proportional
from devstack.process import await_true, kill_family
from sluice import config
from sluice.airflow import jobs
from sluice.airflow.job import Job, Kind, Owner
from sluice.configuration.model import DEFAULT_SCHEMA
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.status import Status
from sluice.model.connection import ConnectionInfo
from spark_jobs.endpoint import Endpoint
from workload import mixes

PAIRS = 10
SETTLE_SECONDS = 75.0
"""Before the first run: what starts has work, and Spark ends Python workers that were idle for a minute."""
SECONDS = 60.0
"""For how many seconds of a run the CPU is counted."""
START_SECONDS = 300.0
"""The seconds until all pairs must apply outside of safe mode."""
MEMORY_GOAL, CPU_GOAL = 1500.0, 15.0
"""MB and percent of a core."""
OWNER = Owner("cdc_apply", "bench", "apply")


def run(args: argparse.Namespace) -> Report:
    """Memory and CPU of the same runs."""
    count = max(1, min(PAIRS, round(PAIRS * args.scale)))
    seconds = min(SECONDS, max(2.0, SECONDS * args.scale))
    with Servers(args) as servers:
        endpoint = servers.spark(args.spark_master)
        with pairs(servers, endpoint, count) as applies:
            time.sleep(min(SETTLE_SECONDS, SETTLE_SECONDS * args.scale))
            looks = [_look(servers, applies, seconds) for _ in range(args.warm_up + args.rounds)][args.warm_up :]
        setting = {**machine.describe(), **servers.describe(), "pairs": count}
    memory = [Run(sum(parts.values()), took, cpu, parts) for parts, cpu, took in looks]
    busy = [Run(100 * sum(cpu.values()) / took, took, cpu) for _, cpu, took in looks]
    title = f"{count} pairs at rest" if count > 1 else "a pair at rest"
    return Report("rest", [
        Figure(f"{title}, memory", "MB", memory, less_is_better=True, at_most=MEMORY_GOAL, note=_shown(memory[-1])),
        Figure(f"{title}, CPU", "% of a core", busy, less_is_better=True, at_most=CPU_GOAL),
    ], setting)  # fmt: skip


@contextmanager
def pairs(servers: Servers, endpoint: Endpoint, count: int) -> Iterator[list[Job]]:
    """That many applies that have nothing to do. Raises `SideFailed`."""
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
                    begin(CheckpointStore(slave, PREFIX, DEFAULT_SCHEMA, name), master)
        applies = []
        for name in names:
            job = _started(name, infos, servers.redis_url, endpoint)
            stack.callback(kill_family, job.runner.pid)
            applies.append(job)
        for job, name in zip(applies, names, strict=True):
            status = Status(store, PREFIX, name)
            if not await_true(lambda status=status: _rests(status.read()), START_SECONDS):  # type: ignore[misc]
                raise SideFailed(f"{name} does not come to rest: {job.log.read_text(errors='replace')[-1500:]}")
        yield applies


def _configured(folder: Path, names: list[str]) -> config.Replication:
    place = folder / "replications"
    place.mkdir()
    slaves = "".join(f"  {name}: {{conn_id: {name}}}\n" for name in names)
    text = f"prefix: {PREFIX}\nmaster: {{conn_id: master}}\nslaves:\n{slaves}tables: {{'public.*': {{}}}}\n"
    (place / "BENCH.yaml").write_text(text + "apply: {checkpoint_interval: 1}\n")
    os.environ |= {"SLUICE_REPLICATIONS": str(place), "SLUICE_HOME": str(folder / "home")}
    return config.load(str(PREFIX))


def _started(name: str, infos: Mapping[str, ConnectionInfo], redis_url: str, endpoint: Endpoint) -> Job:
    connections = {which: infos[which].to_dict() for which in ("master", name)}
    payload = {
        "prefix": str(PREFIX), "slave": name, "connections": connections, "redis_url": redis_url,
        "spark": asdict(endpoint),
    }  # fmt: skip
    return jobs.launch(Kind.APPLY, str(PREFIX), name, OWNER, payload)


def _rests(status: Mapping[str, object]) -> bool:
    """Whether the apply has nothing to do any more."""
    return status.get("activity") == "applying" and status.get("safe_mode") == "off"


def _look(servers: Servers, applies: list[Job], seconds: float) -> tuple[dict[str, float], dict[str, float], float]:
    """MB by part at the end of so many seconds, CPU seconds by part, and how long it took."""

    def roots() -> dict[str, int]:
        shared = {part: pid for part, pid in servers.roots().items() if part == "Redis" or part.startswith("Spark")}
        return {**shared, **{job.slave: job.runner.pid for job in applies}}

    with CpuWatch(roots) as watch:
        began = time.perf_counter()
        time.sleep(seconds)
        took = time.perf_counter() - began
    memory: dict[str, float] = {"applies": 0.0, "their watchers": 0.0}
    watchers = {job.runner.pid for job in applies}
    for part, root in roots().items():
        for pid in below(root):
            kind = "their watchers" if pid in watchers else "applies" if root in watchers else part
            memory[kind] = memory.get(kind, 0.0) + proportional(pid) / 1e6
    cpu = {"applies and watchers": 0.0}
    for part, spent in watch.seconds.items():
        kind = "applies and watchers" if part in {job.slave for job in applies} else part
        cpu[kind] = cpu.get(kind, 0.0) + spent
    return memory, cpu, took


def _shown(run: Run) -> str:
    return ", ".join(f"{part} {size:.0f} MB" for part, size in run.detail.items())
