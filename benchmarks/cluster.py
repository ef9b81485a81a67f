"""`cluster`: the drain with a Spark standalone master and two workers, processes of this machine; the executors read,
reduce and stage.

`steady` is beside the same drain by one process (`local[*]`). In `killed`, one worker and its executor get SIGKILL in
the middle of every drain, and come back for the next; the slave must be equal to the master all the same. `executors`
is the CPU that executors spend on a change, and on a row of a load, two and four of them beside one.
"""

import argparse
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from pyspark import cloudpickle

import spark_jobs.load
from benchmarks import machine
from benchmarks.drain import drain
from benchmarks.load import Table, by_executor, started
from benchmarks.ours import Ours
from benchmarks.progress import alternate
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import Servers
from devstack.spark_cluster import CONF, SparkCluster
from sluice.counted import counted
from sluice.errors import Terminal
from spark_jobs.session import SparkExecutor
from workload import mixes
from workload.mixes import Mix

EXECUTORS = (1, 2, 4)
ROWS_A_CHANGE = 5
"""Rows of a load for each change of a drain: a loader's start is to be a small part of it."""
STAGE_ABOVE = 10_000
"""Changes of a window above which the executors do the work; below, the driver is quicker by itself."""
AFTER = 0.6
"""Seconds from the beginning of a drain to the kill, or half of what a drain takes; sooner where that is too late."""
SOONEST = 0.02


class Killing:
    """Kills a worker once, some seconds after it was first called."""

    def __init__(self, cluster: SparkCluster, after: float) -> None:
        self.cluster, self.after = cluster, after
        self.done = False
        self._begun: float | None = None

    def __call__(self) -> None:
        now = time.monotonic()
        self._begun = self._begun or now
        if not self.done and now - self._begun >= self.after:
            self.done = True
            self.cluster.kill_worker()


class Side:
    """Our side over a cluster of so many workers."""

    def __init__(self, servers: Servers, args: argparse.Namespace, mix: Mix, workers: int, stack: ExitStack) -> None:
        self.servers, self.mix, self.count = servers, mix, workers
        folder = servers.folder / f"spark {workers}"
        folder.mkdir()
        self.cluster = stack.enter_context(SparkCluster(folder, workers))
        of_cluster = argparse.Namespace(**{**vars(args), "spark_master": self.cluster.url})
        self.ours = Ours(servers, of_cluster, mixes.DDL, self.cluster.conf, stage_above=STAGE_ABOVE)
        stack.callback(self.ours.close)
        self.ours.beside = self.cluster.roots
        self.ours.start()
        self.ours.attach()

    def measured(self, killing: Killing | None = None) -> Run:
        """Raises `bench-side-failed` where the executors did not do it."""
        run = drain(self.servers, self.ours, self.mix, killing or (lambda: None))
        if "reduced by the driver" in self.ours.log:
            raise Terminal(f"the executors could not do it:\n{self.ours.log[-1500:]}", code="bench-side-failed")
        return run


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when a slave differs from its master, whatever was killed."""
    changes = max(20_000, int(1_000_000 * args.scale) // 100 * 100)
    mix = Mix("bulk", changes, min(10_000, changes // 100))
    wanted = args.figure or ("steady", "killed")
    figures = []
    with Servers(args) as servers:
        if {"steady", "killed"} & {*wanted}:
            figures += _of_two(servers, args, mix, wanted)
        if "executors" in wanted:
            figures += _of_executors(servers, args, mix)
        setting = {**machine.describe(), **servers.describe(), "spark": {**CONF, "stage_above": STAGE_ABOVE}}
    return Report("cluster", figures, setting)


def _of_two(servers: Servers, args: argparse.Namespace, mix: Mix, wanted: Sequence[str]) -> list[Figure]:
    """With two workers, all the time or until one is killed."""
    figures = []
    with ExitStack() as stack:
        alone = _alone(servers, args, mix) if args.side != "ours" and "steady" in wanted else []
        side = Side(servers, args, mix, 2, stack)
        steady = alternate("cluster", {"ours": side.measured}, args.rounds, args.warm_up)["ours"]
        if "steady" in wanted:
            figures.append(Figure(f"{mix.title}, two workers", "changes/s", steady, alone, "local[*]"))
        if "killed" in wanted:
            killed = []
            after = min(AFTER, min(run.seconds for run in steady) / 2)
            for _ in range(args.rounds):
                run = side.measured(killing := Killing(side.cluster, after))
                while not killing.done:  # the drain was over before: another one, met earlier
                    if after < SOONEST:
                        raise Terminal(
                            "the drain was over before a worker was killed: take a larger --scale",
                            code="bench-side-failed",
                        )
                    after /= 2
                    run = side.measured(killing := Killing(side.cluster, after))
                killed.append(run)
                side.cluster.add_worker()
            title = "the same, one worker killed: equal all the same"
            figures.append(Figure(title, "changes/s", killed, steady, "nothing killed"))
    return figures


def _of_executors(servers: Servers, args: argparse.Namespace, mix: Mix) -> list[Figure]:
    """The CPU of one, two and four executors for a change, and for a row of a load."""
    drains: dict[int, list[Run]] = {}
    loads: dict[int, list[Run]] = {}
    for count in EXECUTORS:
        with ExitStack() as stack:
            side = Side(servers, args, mix, count, stack)
            runs = alternate(f"drain, {count} executors", {"ours": side.measured}, args.rounds, args.warm_up)["ours"]
            drains[count] = [_of_workers(run, mix.changes) for run in runs]
            side.ours.close()
            table = Table(servers, ROWS_A_CHANGE * mix.changes)
            runs = _loads(table, side, args)
            loads[count] = [_of_workers(run, table.rows) for run in runs]
    return [
        *_beside_one(f"{mix.title}, CPU of", "µs/change", drains),
        *_beside_one(f"load of {table.title}, CPU of", "µs/row", loads),
    ]


def _loads(table: Table, side: Side, args: argparse.Namespace) -> list[Run]:
    # Executors have the library, but not the module of the job, which is the main one elsewhere.
    cloudpickle.register_pickle_by_value(spark_jobs.load)  # type: ignore[no-untyped-call]
    executor = SparkExecutor("sluice bench: load", side.ours.endpoint)
    try:
        started(executor)
        measured = partial(by_executor, table, executor, lambda: {"driver": os.getpid(), **side.cluster.roots()})
        return alternate(f"load, {side.count} executors", {"ours": measured}, args.rounds, args.warm_up)["ours"]
    finally:
        executor.stop()


def _beside_one(title: str, unit: str, runs: dict[int, list[Run]]) -> list[Figure]:
    one = runs[EXECUTORS[0]]
    return [
        Figure(f"{title} {counted(count, 'executor')}", unit, runs[count], one, "one executor", True, goal=0.8)
        for count in EXECUTORS[1:]
    ]


def _of_workers(run: Run, units: int) -> Run:
    """The CPU of the workers alone as the value of the run: microseconds for each unit of work."""
    seconds = sum(seconds for part, seconds in run.cpu.items() if part.startswith("worker"))
    return replace(run, value=1e6 * seconds / units)


def _alone(servers: Servers, args: argparse.Namespace, mix: Mix) -> list[Run]:
    """The same drain by one process."""
    ours = Ours(servers, args, mixes.DDL)
    try:
        ours.start()
        return alternate("local", {"ours": lambda: drain(servers, ours, mix)}, args.rounds, args.warm_up)["ours"]
    finally:
        ours.close()
