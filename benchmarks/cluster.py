"""`cluster`: the drain with a Spark standalone master and two workers, processes of this machine; the executors read,
reduce and stage.

`steady` is beside the same drain by one process (`local[*]`). In `killed`, one worker and its executor get SIGKILL in
the middle of every drain, and come back for the next; the slave must be equal to the master all the same. `executors`
is the CPU that executors spend on a change, two and four of them beside one.
"""

import argparse
import itertools
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks import machine
from benchmarks.drain import drain
from benchmarks.ours import Ours
from benchmarks.report import Figure, Report, Run
from benchmarks.rounds import alternate
from benchmarks.servers import Servers
from benchmarks.side import SideFailed
from devstack.ports import HOST, free_port
from devstack.process import await_true, kill_family
from sluice.counted import counted
from spark_jobs import server
from workload import mixes
from workload.mixes import Mix

CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
}
EXECUTORS = (1, 2, 4)
STAGE_ABOVE = 10_000
"""Changes of a window above which the executors do the work; below, the driver is quicker by itself."""
AFTER = 0.6
"""Seconds from the beginning of a drain to the kill, or half of what a drain takes; sooner where that is too late."""
SOONEST = 0.02


class Cluster:
    """A master and its workers, ended on leaving."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.url = f"spark://{HOST}:{free_port()}"
        self.secret = secrets.token_hex(16)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._names = itertools.count(1)
        self._master: subprocess.Popen[bytes] | None = None
        self._count = workers

    def __enter__(self) -> "Cluster":
        defaults = {**server.PROTECTED, "spark.authenticate.secret": self.secret}
        text = "".join(f"{name} {value}\n" for name, value in defaults.items())
        (self.folder / "spark-defaults.conf").write_text(text)
        try:
            port = self.url.rpartition(":")[2]
            self._master = self._start("master.Master", "--host", HOST, "--port", port, "--webui-port", "0")
            if not await_true(lambda: "New state: ALIVE" in self._said(), 60):
                raise SideFailed(f"The Spark master did not start: {self._said()}")
            for _ in range(self._count):
                self.add_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers.values(), self._master):
            if process is not None:
                _kill_family(process)

    def add_worker(self) -> None:
        """Returns when the master knows it."""
        known = self._said().count("Registering worker")
        place = ("--host", HOST, "--cores", "1", "--memory", "600m", "--webui-port", "0")
        work = ("--work-dir", str(self.folder / "work"))
        self.workers[f"worker {next(self._names)}"] = self._start("worker.Worker", *place, *work, self.url)
        if not await_true(lambda: self._said().count("Registering worker") > known, 60):
            raise SideFailed(f"The Spark worker did not come up: {self._said()[-1500:]}")

    def kill_worker(self) -> None:
        """SIGKILL to the oldest worker and all below it."""
        _kill_family(self.workers.pop(next(iter(self.workers))))

    def roots(self) -> dict[str, int]:
        """For the counting of CPU time and memory."""
        found = {name: process.pid for name, process in self.workers.items()}
        return {**found, **({"Spark master": self._master.pid} if self._master else {})}

    def _said(self) -> str:
        log = self.folder / "cluster.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def _start(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        import pyspark

        home = Path(pyspark.__file__).parent
        given = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
        # Executors have the library from the driver alone, as on another machine.
        given.pop("PYTHONPATH", None)
        given["SPARK_DAEMON_MEMORY"] = "256m"
        given["SPARK_CONF_DIR"] = str(self.folder)
        with open(self.folder / "cluster.log", "ab") as log:
            return subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
                env=given, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder,
            )  # fmt: skip


class Killing:
    """Kills a worker once, some seconds after it was first called."""

    def __init__(self, cluster: Cluster, after: float) -> None:
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
        self.servers, self.mix = servers, mix
        folder = servers.folder / f"spark {workers}"
        folder.mkdir()
        self.cluster = stack.enter_context(Cluster(folder, workers))
        conf = {**CONF, "spark.authenticate.secret": self.cluster.secret}
        of_cluster = argparse.Namespace(**{**vars(args), "spark_master": self.cluster.url})
        self.ours = Ours(servers, of_cluster, mixes.DDL, conf, stage_above=STAGE_ABOVE)
        stack.callback(self.ours.close)
        self.ours.beside = self.cluster.roots
        self.ours.start()

    def measured(self, killing: Killing | None = None) -> Run:
        """Raises `SideFailed` where the executors did not do it."""
        run = drain(self.servers, self.ours, self.mix, killing or (lambda: None))
        if "reduced by the driver" in self.ours.log.read_text(errors="replace"):
            raise SideFailed(f"the executors could not do it:\n{self.ours.log.read_text()[-1500:]}")
        return run


def run(args: argparse.Namespace) -> Report:
    """Raises `SideFailed` when a slave differs from its master, whatever was killed."""
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
                        raise SideFailed("the drain was over before a worker was killed: take a larger --scale")
                    after /= 2
                    run = side.measured(killing := Killing(side.cluster, after))
                killed.append(run)
                side.cluster.add_worker()
            title = "the same, one worker killed: equal all the same"
            figures.append(Figure(title, "changes/s", killed, steady, "nothing killed"))
    return figures


def _of_executors(servers: Servers, args: argparse.Namespace, mix: Mix) -> list[Figure]:
    """What executors spend on a change, one of them, two and four."""
    runs: dict[int, list[Run]] = {}
    for count in EXECUTORS:
        with ExitStack() as stack:
            side = Side(servers, args, mix, count, stack)
            found = alternate(f"{count} executors", {"ours": side.measured}, args.rounds, args.warm_up)["ours"]
        runs[count] = [replace(run, value=1e6 * _of_workers(run) / mix.changes) for run in found]
    title = f"{mix.title}, CPU of "
    unit, one = "µs/change", runs[EXECUTORS[0]]
    return [
        Figure(f"{title}{counted(count, 'executor')}", unit, runs[count], one, "one executor", True, goal=0.8)
        for count in EXECUTORS[1:]
    ]


def _of_workers(run: Run) -> float:
    return sum(seconds for part, seconds in run.cpu.items() if part.startswith("worker"))


def _alone(servers: Servers, args: argparse.Namespace, mix: Mix) -> list[Run]:
    """The same drain by one process."""
    ours = Ours(servers, args, mixes.DDL)
    try:
        ours.start()
        return alternate("local", {"ours": lambda: drain(servers, ours, mix)}, args.rounds, args.warm_up)["ours"]
    finally:
        ours.close()


def _kill_family(process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL to the process and all below it, its executors too."""
    family = kill_family(process.pid)
    process.wait()
    await_true(lambda: not any(member.alive() for member in family), 10)
