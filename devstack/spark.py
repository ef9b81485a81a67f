"""The Spark Connect server of a stack, on the loopback address. All jobs of all replications use it.

Layout of its folder: `spark.properties` (0600, with the generated token), `token`, `port`, `ui-port`, and `scratch/`,
which is emptied at each start.
"""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from devstack.ports import HOST, is_free, port_in_use
from devstack.process import ProcessId, await_true, descendants, kill_family
from devstack.secret import keep_secret
from devstack.server import kept_port
from sluice.errors import Terminal
from spark_jobs.server import ConnectServer

NAME = "spark"
MASTER = "local[*]"


def first_spark_job_failed(output: str) -> Terminal:
    """The server listens, but its first job failed."""
    return Terminal(f"Spark's first job failed: {output}", code="first-spark-job-failed")


class SparkServer:
    """A program of the stack. `marks`: environment variables that identify its processes; `conf`: Spark's settings.

    `master`: of a cluster, if it is not this machine alone.
    """

    start_timeout = 120.0
    warm_timeout = 180.0
    stop_signals = ((signal.SIGTERM, 10.0),)

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        marks: Mapping[str, str] | None = None,
        conf: Mapping[str, str] | None = None,
        master: str = MASTER,
    ) -> None:
        self.directory = directory.resolve()
        self._master = master
        self._given = port
        self._marks = dict(marks or {})
        self._conf = dict(conf or {})
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """The given port, else that of the last start, else a free one, which is then kept."""
        return kept_port(self.directory / "port", self._given)

    @property
    def ui_port(self) -> int:
        """The port of its pages, kept likewise."""
        return kept_port(self.directory / "ui-port", None)

    @property
    def ui_url(self) -> str:
        return f"http://{HOST}:{self.ui_port}"

    @property
    def token(self) -> str:
        return keep_secret(self.directory / "token")

    @property
    def server(self) -> ConnectServer:
        return ConnectServer(
            self.directory, self._master, self._conf, port=self.port, token=self.token, ui_port=self.ui_port
        )

    def prepare(self) -> None:
        """Prepares folders and settings. Safe to repeat. Raises `port-in-use`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for port in (self.port, self.ui_port):
            if not is_free(port):
                raise port_in_use("Spark", port, f"--port {NAME}=PORT")
        self.server.prepare()

    def spawn(self, output: IO[bytes], *, dies: bool = False) -> "subprocess.Popen[bytes]":
        """Starts the server. Call `prepare()` before. Does not wait until it is ready."""
        server = self.server
        self._child = server.spawn(output, environment={**server.environment(), **self._marks}, dies=dies)
        return self._child

    def is_ready(self) -> bool:
        return self.server.listens()

    def warm_up(self) -> None:
        """Runs a first job, which takes a new server seconds. Later jobs start at once. Raises
        `first-spark-job-failed`.
        """
        given = json.dumps({"remote": self.server.url})
        done = subprocess.run(
            [sys.executable, "-m", "spark_jobs.warm_up"], input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=self.warm_timeout, check=False, cwd=self.directory,
            env={**self.server.environment(), **self._marks},
        )  # fmt: skip
        if done.returncode != 0:
            raise first_spark_job_failed(done.stdout.strip()[-1500:])

    def start(self, *, waits: bool = True) -> None:
        """Starts it for tests and benchmarks, and returns when it is warm. It ends with the calling thread."""
        self.prepare()
        with open(self.directory / "log", "ab") as output:
            child = self.spawn(output, dies=True)
        if not waits:
            return
        await_true(lambda: self.is_ready() or child.poll() is not None, self.start_timeout)
        if not self.is_ready():
            self.kill()
            raise first_spark_job_failed((self.directory / "log").read_text(errors="replace")[-1500:])
        self.warm_up()

    def family(self) -> list[ProcessId]:
        """Returns the processes of the server that this object started, parents first."""
        return descendants(self._child.pid) if self._child is not None else []

    def stop(self) -> None:
        """Ends the server that this object started."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(self.stop_signals[0][1])
        self.kill()

    def kill(self) -> None:
        """Sends SIGKILL to all its processes."""
        if self._child is not None:
            kill_family(self._child.pid)
            self._child.wait()
