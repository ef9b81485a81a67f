"""Keeps one service running: starts it, watches it, restarts it with back-off when it dies, stops it on demand."""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from devstack.process import ProcessId, await_true, end, session
from devstack.services import Service
from sluice.errors import SluiceError

log = logging.getLogger("sluice.supervisor")

BACK_OFF = (0.2, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before each further start. The last value repeats."""
PROVEN = 10.0
"""Seconds of life after which the back-off starts over."""


class State(StrEnum):
    """The state of a service."""

    WAITING = "waiting"
    """It waits for a service that it needs."""
    STARTING = "starting"
    RUNNING = "running"
    BACKING_OFF = "backing off"
    """It died or could not be started, and will be started again."""
    STOPPED = "stopped"


@dataclass
class Report:
    """State and process of a service, as `status` shows them."""

    name: str
    state: State
    since: float
    """When the state was entered, seconds since the epoch."""
    process: ProcessId | None = None
    port: int | None = None
    restarts: int = 0
    failures: int = 0
    """Successive starts that failed."""
    message: str = ""
    """Why it is not running."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, values: dict[str, Any]) -> "Report":
        """Reads the result of `to_dict`."""
        process = ProcessId.read(values["process"]) if values["process"] else None
        return cls(**{**values, "state": State(values["state"]), "process": process})


def back_off(tries: int, lived: float) -> tuple[int, float]:
    """Returns the number of successive tries and the seconds to the next one, for a service that died after `lived`
    seconds.
    """
    tries = 0 if lived > PROVEN else tries
    return tries + 1, BACK_OFF[min(tries, len(BACK_OFF) - 1)]


class Runner(threading.Thread):
    """Keeps a service running until `stop()`. It calls `changed` after each change of the report."""

    def __init__(self, service: Service, log_file: Path, running: Callable[[str], bool], changed: Callable[[], None]):
        super().__init__(name=service.name, daemon=True)
        self.service = service
        self.report = Report(service.name, State.WAITING, time.time())
        self._log_file, self._running, self._changed = log_file, running, changed
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        tries = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                message = self._once()
            except (SluiceError, OSError) as error:
                message = str(error)
            except Exception as error:  # a bug of ours must not leave the service unwatched
                log.exception("%s: unexpected", self.service.name)
                message = f"{type(error).__name__}: {error}"
            self._end_child()
            if self._stopping.is_set():
                break
            self.report.failures = 0 if self.report.state is State.RUNNING else self.report.failures + 1
            tries, pause = back_off(tries, time.monotonic() - began)
            log.warning("%s: %s; next start in %.1f s", self.service.name, message, pause)
            self.report.restarts += 1
            self._enter(State.BACKING_OFF, message)
            self._stopping.wait(pause)
        self._enter(State.STOPPED)

    def stop(self) -> None:
        """Stops the service with its signals and then SIGKILL. Returns when no process of its session runs."""
        self._stopping.set()
        for number, seconds in self.service.program.stop_signals:
            if self._child is not None and self._child.poll() is None:
                self._child.send_signal(number)
            if self._ended(seconds):
                break
            log.warning("%s: did not end in %.0f s after %s", self.name, seconds, signal.Signals(number).name)
        else:
            if self._child is not None:
                self._child.kill()
            self._ended(10.0)

    def _ended(self, timeout: float) -> bool:
        self.join(timeout)
        return not self.is_alive()

    def _once(self) -> str:
        """Starts the service and waits for its end. Returns why it ended."""
        program = self.service.program
        self._enter(State.WAITING, "needs " + ", ".join(self.service.needs) if self.service.needs else "")
        while not all(self._running(name) for name in self.service.needs):
            if self._stopping.wait(0.1):
                return "stopped"
        self._enter(State.STARTING)
        program.prepare()
        offset = self._log_file.stat().st_size if self._log_file.exists() else 0
        with open(self._log_file, "ab", opener=_private) as output:
            child = self._child = program.spawn(output)
        self.report.process = ProcessId.of(child.pid)
        self.report.port = program.port
        self._changed()

        def decided() -> bool:
            return program.is_ready() or child.poll() is not None or self._stopping.is_set()

        # Each look at a component of Airflow costs its API a query, so there are fewer of them.
        ready = await_true(decided, program.start_timeout, 0.1 if self.service.tier == 0 else 0.4)
        if child.poll() is not None or not ready:
            return f"{'ended' if ready else 'was not ready in time'} while starting, its log:\n{self._tail(offset)}"
        if not self._stopping.is_set():
            self.service.on_ready()
            log.info("%s: running, pid %d", self.service.name, child.pid)
            self._enter(State.RUNNING)
        status = child.wait()
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"

    def _end_child(self) -> None:
        """Ends all processes of the service's session, as a service manager does. Detached jobs continue."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.poll() is None:
            for number, seconds in self.service.program.stop_signals:
                child.send_signal(number)
                if await_true(lambda: child.poll() is not None, seconds):
                    break
            else:
                child.kill()
                child.wait()
        end(session(child.pid), grace=3.0)
        self.report.process = None

    def _tail(self, offset: int) -> str:
        with open(self._log_file, "rb") as file:
            file.seek(max(offset, self._log_file.stat().st_size - 1500))
            return file.read().decode(errors="replace").strip()

    def _enter(self, state: State, message: str = "") -> None:
        self.report.state, self.report.since, self.report.message = state, time.time(), message
        self._changed()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
