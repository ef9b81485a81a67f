"""The traffic: pgbench and the writer. Both continue after restarts of the master until `stop`."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import psycopg

from devstack.demo.accounts import APPLICATION, DATABASE, OWNER
from devstack.home import REPOSITORY
from devstack.postgres import PostgresServer
from devstack.process import await_true
from sluice.errors import Terminal
from sluice.with_parent import end_with_parent
from workload import pgbench

WRITER_SHARE, WRITER_MOST = 0.25, 400
"""The writer's share of the row changes, and its maximum a second. pgbench makes the others."""


class TrafficFailed(Terminal):
    """The traffic met errors that a healthy master does not raise."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(
            "The traffic itself failed on the master, and capturing its changes must never cause that:\n  "
            + "\n  ".join(problems)
            + "\nLook at the objects in these messages, such as a trigger function, and at the master's log."
        )


@dataclass(frozen=True)
class Choice:
    """What the traffic writes, and how fast."""

    rate: float
    """Row changes a second of both programs."""
    scale: int
    """pgbench's scale."""
    seed: int
    portable: bool = False
    """Without values that only PostgreSQL can store."""


class Traffic:
    """Both sources of changes."""

    def __init__(self, master: PostgresServer, choice: Choice, environment: Mapping[str, str]) -> None:
        self.master, self.choice = master, choice
        self.writer_rate = min(choice.rate * WRITER_SHARE, WRITER_MOST)
        self.mix = pgbench.mix(int(choice.rate - self.writer_rate))
        path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "plugins")])
        self._environment = {**environment, "PYTHONPATH": path}
        self._passwords = master.directory / "passwords"
        self._stopping = threading.Event()
        self._bench: subprocess.Popen[str] | None = None
        self._writer: subprocess.Popen[str] | None = None
        self._threads: list[threading.Thread] = []
        self._tally: dict[str, Any] = {}
        self._restarts = 0
        self._complaints: list[str] = []

    def start(self) -> None:
        for name, loop in (("pgbench", self._keep_bench), ("writer", self._keep_writer)):
            thread = threading.Thread(target=loop, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Ends both, and returns when the master has no session and no prepared transaction of theirs.

        Raises `TrafficFailed`.
        """
        self._stopping.set()
        if self._bench is not None and self._bench.poll() is None:
            self._bench.terminate()
        if self._writer is not None and self._writer.stdin is not None:
            self._writer.stdin.close()
        for thread in self._threads:
            thread.join(20)
        for process in (self._bench, self._writer):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        await_true(self._quiet, 30.0, 0.05)
        if problems := self.problems:
            raise TrafficFailed(problems)

    @property
    def running(self) -> bool:
        return bool(self._threads) and not self._stopping.is_set()

    @property
    def problems(self) -> list[str]:
        """Errors that a healthy master does not raise."""
        return [*self._tally.get("unexpected", []), *self._complaints]

    @property
    def tally(self) -> dict[str, int]:
        """The writer's transactions, changes, rolled_back, failed, lost_connections; `restarts` of pgbench."""
        counts = {name: value for name, value in self._tally.items() if name != "unexpected"}
        return {**counts, "restarts": self._restarts}

    def _quiet(self) -> bool:
        """Whether the master has no session of the traffic. It commits what a dead writer has prepared."""
        try:
            with self.master.connect(DATABASE) as connection:
                for (name,) in connection.execute(
                    "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE 'demo writer %'"
                ).fetchall():
                    connection.execute(f"COMMIT PREPARED '{name}'")
                row = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = %s"
                    " AND application_name <> %s",
                    [OWNER, f"{APPLICATION} heartbeat"],
                ).fetchone()
                return row is not None and row[0] == 0
        except psycopg.Error:
            return False

    def _keep_bench(self) -> None:
        while not self._stopping.is_set():
            if not await_true(lambda: self._stopping.is_set() or self.master.is_ready(), 60.0, 0.1):
                continue
            if self._stopping.is_set():
                return
            command = pgbench.command(self.mix, self.choice.scale, self.choice.seed + self._restarts)
            self._bench = bench = subprocess.Popen(
                command,
                env={
                    **self._environment,
                    **pgbench.environment(self.master.info(DATABASE, OWNER), self._passwords),
                },
                text=True,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                preexec_fn=partial(end_with_parent, signal.SIGTERM),
            )
            complaints = _read(bench.stderr)
            bench.wait()
            if not self._stopping.is_set():
                self._restarts += 1
                self._complaints += [line for line in complaints if _is_complaint(line)][:3]
                self._stopping.wait(0.3)

    def _keep_writer(self) -> None:
        info = self.master.info(DATABASE, OWNER)
        task = {
            "connection": info.to_dict(),
            "seed": self.choice.seed,
            "rate": self.writer_rate,
            "portable": self.choice.portable,
        }
        log = Path(self._environment["SLUICE_HOME"]) / "logs" / "demo-writer.log"
        with open(log, "ab") as errors:
            self._writer = writer = subprocess.Popen(
                [sys.executable, "-m", "workload"],
                env=self._environment,
                text=True,
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert writer.stdin is not None and writer.stdout is not None
        writer.stdin.write(json.dumps(task) + "\n")
        writer.stdin.flush()
        for line in writer.stdout:
            self._tally = json.loads(line)
        if writer.wait() != 0 and not self._stopping.is_set():
            self._complaints.append(f"the writer ended with status {writer.returncode}; its log is {log}")


def _read(stream: IO[str] | None) -> list[str]:
    """Reads a stream to its end, and returns its last 50 lines."""
    lines: list[str] = []
    for line in stream or ():
        lines = [*lines[-49:], line.strip()]
    return lines


def _is_complaint(line: str) -> bool:
    """Whether a line of pgbench is an error other than the loss of its connection."""
    harmless = (
        "connection",
        "terminat",
        "Run was aborted",
        "aborted in command",
        "starting up",
        "shutting down",
        "recovery",
    )
    return "ERROR" in line and not any(word in line for word in harmless)
