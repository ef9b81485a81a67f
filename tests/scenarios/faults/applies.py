"""The applies of a run: real processes, started again when they end, as Airflow's task does."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from devstack.process import ProcessId, kill_family
from sluice.exit_status import TERMINAL
from workload.faults.freezer import Freezer

REPOSITORY = Path(__file__).resolve().parents[3]
FENCED = "took over slave"
"""In the last words of an apply that found another one with a later epoch: an end as it should be."""
UNFORESEEN = "in a way nobody foresaw"
"""In the log of a job that ended with an error that is neither Terminal nor Transient."""


class ApplyFailed(AssertionError):
    """An apply needed a person, and there was nothing to fix; or it ended with an error that nobody classified."""


def last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-12:])


class Process:
    """A driver in its own session; its output is in `log`."""

    def __init__(self, values: dict[str, Any], log: Path):
        self.log = log
        with open(log, "ab") as output:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "tests.scenarios.faults.driver"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'plugins'}"},
                start_new_session=True,
            )
        assert self.child.stdin is not None
        json.dump(values, self.child.stdin)
        self.child.stdin.close()

    @property
    def alive(self) -> bool:
        return self.child.poll() is None

    def send(self, number: int) -> bool:
        """Sends a signal to its process. Returns whether it was alive."""
        alive = self.alive
        if alive:
            os.kill(self.child.pid, number)
        return alive

    def kill(self) -> None:
        """The whole session."""
        kill_family(self.child.pid)
        self.child.wait()

    def last_words(self) -> str:
        return last_lines(self.log)


class Applies:
    """Keeps one apply running. `second` starts another beside it; then the remaining one is kept."""

    def __init__(self, values: dict[str, Any], folder: Path):
        self._values = values
        self._folder = folder
        self._running: list[Process] = []
        self._freezer = Freezer()
        self.started = 0
        self.keeping = True

    @property
    def current(self) -> Process | None:
        """The living apply that was started last."""
        alive = [process for process in self._running if process.alive]
        return alive[-1] if alive else None

    @property
    def staged(self) -> int:
        """The number of windows that Spark's executors have staged."""
        return self.said(" of Spark in ")

    def said(self, text: str) -> int:
        """How often the text is in their logs."""
        return sum(log.read_text(errors="replace").count(text) for log in self._folder.glob("apply-*.log"))

    def start(self) -> None:
        self.started += 1
        self._running.append(Process(self._values, self._folder / f"apply-{self.started}.log"))

    def tend(self) -> None:
        """Starts an apply if none lives. Raises `ApplyFailed`."""
        for process in [process for process in self._running if not process.alive]:
            self._running.remove(process)
            words = process.last_words()
            if process.child.returncode == TERMINAL and FENCED not in words:
                raise ApplyFailed(f"the apply wants a person; {process.log} ends:\n{words}")
            if UNFORESEEN in (said := process.log.read_text(errors="replace")):
                raise ApplyFailed(f"the apply ended with a defect; {process.log}:\n{said[said.index(UNFORESEEN) :]}")
        # A frozen one counts as living for Airflow too, unless a second one is started by force.
        if self.keeping and not self._running:
            self.start()

    def freeze(self) -> bool:
        """Stops the process; returns whether it was alive."""
        process = self.current
        frozen = ProcessId.of(process.child.pid) if process is not None else None
        return frozen is not None and self._freezer.freeze(str(frozen.pid), [frozen])

    def thaw(self) -> None:
        self._freezer.thaw_all()

    def end(self, seconds: float = 20.0) -> None:
        """Ends all in an orderly way. Raises `ApplyFailed` for one that does not end."""
        self.keeping = False
        self.thaw()
        for process in self._running:
            process.send(signal.SIGTERM)
        until = time.monotonic() + seconds
        while any(process.alive for process in self._running):
            if time.monotonic() > until:
                stuck = next(process for process in self._running if process.alive)
                raise ApplyFailed(f"the apply does not end; {stuck.log} ends:\n{stuck.last_words()}")
            time.sleep(0.02)
        self.tend()

    def kill(self) -> None:
        """Whatever runs, at once."""
        self.keeping = False
        for process in self._running:
            process.kill()
        self._running.clear()
