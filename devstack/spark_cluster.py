"""A standalone cluster of Spark on this machine, for benchmarks and fault runs: a master, and workers of one core.

Its executors have the library from their driver alone, as on other machines.
"""

import itertools
import os
import secrets
import subprocess
import sys
from pathlib import Path

from devstack.ports import HOST, free_port
from devstack.process import ProcessId, await_true, descendants, kill_family
from sluice.errors import Terminal
from sluice.with_parent import with_parent
from spark_jobs import server

CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
}
START_SECONDS = 300.0


def spark_cluster_did_not_start(part: str, log: str) -> Terminal:
    """The master or a worker did not come up. `log`: by the end of their log."""
    return Terminal(f"The {part} of Spark did not start: {log[-1500:]}", code="spark-cluster-did-not-start")


class SparkCluster:
    """Ended on leaving, and where the kernel does that with the thread that entered it. `folder` has to be there."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.url = f"spark://{HOST}:{free_port()}"
        self.secret = secrets.token_hex(16)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._names = itertools.count(1)
        self._master: subprocess.Popen[bytes] | None = None
        self._count = workers

    def __enter__(self) -> "SparkCluster":
        defaults = {**server.PROTECTED, "spark.authenticate.secret": self.secret}
        text = "".join(f"{name} {value}\n" for name, value in defaults.items())
        (self.folder / "spark-defaults.conf").write_text(text)
        try:
            port = self.url.rpartition(":")[2]
            self._master = self._start("master.Master", "--host", HOST, "--port", port, "--webui-port", "0")
            if not await_true(lambda: "New state: ALIVE" in self._log(), START_SECONDS):
                raise spark_cluster_did_not_start("master", self._log())
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

    @property
    def conf(self) -> dict[str, str]:
        """Settings of a Connect server that uses the cluster; the secret is among them."""
        return {**CONF, "spark.authenticate.secret": self.secret}

    def add_worker(self) -> None:
        """Returns when the master knows it. Raises `spark-cluster-did-not-start`."""
        known = self._log().count("Registering worker")
        place = ("--host", HOST, "--cores", "1", "--memory", "600m", "--webui-port", "0")
        work = ("--work-dir", str(self.folder / "work"))
        self.workers[f"worker {next(self._names)}"] = self._start("worker.Worker", *place, *work, self.url)
        if not await_true(lambda: self._log().count("Registering worker") > known, START_SECONDS):
            raise spark_cluster_did_not_start("worker", self._log())

    def kill_worker(self) -> None:
        """SIGKILL to the oldest worker and all below it."""
        _kill_family(self.workers.pop(next(iter(self.workers))))

    def family(self) -> list[ProcessId]:
        """All processes, executors and their Python workers too; each after the one that started it."""
        return [process for pid in self.roots().values() for process in descendants(pid)]

    def roots(self) -> dict[str, int]:
        """For the counting of CPU time and memory."""
        pids = {name: process.pid for name, process in self.workers.items()}
        return {**pids, **({"Spark master": self._master.pid} if self._master else {})}

    def _log(self) -> str:
        log = self.folder / "cluster.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def _start(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        home = server.home()
        given = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
        given.pop("PYTHONPATH", None)
        given["SPARK_DAEMON_MEMORY"] = "256m"
        given["SPARK_CONF_DIR"] = str(self.folder)
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        with open(self.folder / "cluster.log", "ab") as log:
            return subprocess.Popen(
                with_parent(command), env=given, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, cwd=self.folder,
            )  # fmt: skip


def _kill_family(process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL to the process and all below it, its executors too."""
    family = kill_family(process.pid)
    process.wait()
    await_true(lambda: not any(member.alive() for member in family), 10)
