"""Processes by identity: pid and start time, because the kernel reuses pids."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil


@dataclass(frozen=True)
class ProcessId:
    """A pid with the time when its process started, in seconds since the epoch.

    `ticks` is the start time by the kernel's counter (Linux), which does not change when the clock is set. It decides
    if it is known.
    """

    pid: int
    started: float
    ticks: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """Returns the identity of a running process, or None when there is none."""
        try:
            return cls(pid, psutil.Process(pid).create_time(), _ticks(pid))
        except psutil.Error:
            return None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "ProcessId":
        """Reads the result of `to_dict`. Raises `KeyError`, `TypeError`, `ValueError`."""
        ticks = values.get("ticks")
        return cls(int(values["pid"]), float(values["started"]), None if ticks is None else int(ticks))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def alive(self) -> bool:
        """Whether this process still runs. A zombie does not."""
        now = ProcessId.of(self.pid)
        if now is None:
            return False
        known = self.ticks is not None and now.ticks is not None
        same = self.ticks == now.ticks if known else abs(self.started - now.started) < 0.5
        try:
            process = psutil.Process(self.pid)
            # A zombie whose threads are still ending keeps its ports and files.
            return same and bool(process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
        except psutil.Error:
            return False

    def send(self, number: int) -> None:
        """Signals the process, if it still runs."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def _ticks(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(text[text.rindex(")") + 2 :].split()[19])  # the name, in parentheses, may hold anything


def await_true(condition: Callable[[], bool], timeout: float, interval: float = 0.05) -> bool:
    """Polls until the condition holds. Returns False when it does not hold after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval)
    return True


def descendants(pid: int) -> list[ProcessId]:
    """Returns the process and its descendants; nothing when it has ended."""
    try:
        process = psutil.Process(pid)
        processes = [process, *process.children(recursive=True)]
    except psutil.Error:
        return []
    return [identity for entry in processes if (identity := ProcessId.of(entry.pid))]


def kill_family(pid: int) -> list[ProcessId]:
    """Sends SIGKILL to the process and its descendants, and returns them."""
    family = descendants(pid)
    for process in family:
        process.send(signal.SIGKILL)
    return family


def processes_in(folder: Path) -> list[ProcessId]:
    """Returns the processes whose current directory is exactly that folder."""
    return [identity for pid in psutil.pids() if _cwd(pid) == str(folder) and (identity := ProcessId.of(pid))]


def _cwd(pid: int) -> str | None:
    try:
        return str(psutil.Process(pid).cwd())
    except psutil.Error:
        return None


def session(leader: int) -> list[ProcessId]:
    """Returns the processes of a session, even after its leader ended."""
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == leader and (identity := ProcessId.of(pid)) and identity.alive():
                members.append(identity)
    return members


def marked(name: str, value: str) -> list[ProcessId]:
    """Returns the processes that were started with the environment variable `name` set to `value`."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(name) == value and (identity := ProcessId.of(process.pid)) and identity.alive():
                processes.append(identity)
    return processes


def end(processes: Iterable[ProcessId], grace: float) -> list[ProcessId]:
    """Sends SIGTERM to all, and SIGKILL to those that run after `grace` seconds. Returns those."""
    pending = [process for process in processes if process.alive()]
    for process in pending:
        process.send(signal.SIGTERM)
    await_true(lambda: not any(process.alive() for process in pending), grace)
    stubborn = [process for process in pending if process.alive()]
    for process in stubborn:
        process.send(signal.SIGKILL)
    await_true(lambda: not any(process.alive() for process in stubborn), 5.0)
    return stubborn
