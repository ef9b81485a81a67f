"""Processes by identity: a pid alone may have been given to somebody else meanwhile."""

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
    """A pid with the time its process started (seconds since the epoch).

    `ticks` says the same by the kernel's counter (Linux), which does not move when the clock is set: it decides where
    it is known.
    """

    pid: int
    started: float
    ticks: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The identity of a running process, None when there is none."""
        try:
            return cls(pid, psutil.Process(pid).create_time(), _ticks(pid))
        except psutil.Error:
            return None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "ProcessId":
        """From what `to_dict` wrote. Raises `KeyError`, `TypeError`, `ValueError`."""
        ticks = values.get("ticks")
        return cls(int(values["pid"]), float(values["started"]), None if ticks is None else int(ticks))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def alive(self) -> bool:
        """Whether that very process still runs; a zombie does not."""
        now = ProcessId.of(self.pid)
        if now is None:
            return False
        known = self.ticks is not None and now.ticks is not None
        same = self.ticks == now.ticks if known else abs(self.started - now.started) < 0.5
        try:
            process = psutil.Process(self.pid)
            # A zombie whose threads are still ending holds its ports and files.
            return same and bool(process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
        except psutil.Error:
            return False

    def send(self, number: int) -> None:
        """Signal the process; one that is gone is no error."""
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
    """Poll until the condition holds; False when it still does not after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval)
    return True


def descendants(pid: int) -> list[ProcessId]:
    """The process and everything below it; empty when it is gone."""
    try:
        process = psutil.Process(pid)
        found = [process, *process.children(recursive=True)]
    except psutil.Error:
        return []
    return [identity for entry in found if (identity := ProcessId.of(entry.pid))]


def kill_family(pid: int) -> list[ProcessId]:
    """SIGKILL to the process and everything below it; returns what that was."""
    family = descendants(pid)
    for process in family:
        process.send(signal.SIGKILL)
    return family


def processes_in(folder: Path) -> list[ProcessId]:
    """The processes that work in exactly that folder (their current directory)."""
    return [identity for pid in psutil.pids() if _cwd(pid) == str(folder) and (identity := ProcessId.of(pid))]


def _cwd(pid: int) -> str | None:
    try:
        return str(psutil.Process(pid).cwd())
    except psutil.Error:
        return None


def session(leader: int) -> list[ProcessId]:
    """The processes of a session: what a service started, unless it detached itself, even after the leader died."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == leader and (identity := ProcessId.of(pid)) and identity.alive():
                found.append(identity)
    return found


def marked(name: str, value: str) -> list[ProcessId]:
    """The processes that were started with the environment variable `name` set to `value`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(name) == value and (identity := ProcessId.of(process.pid)) and identity.alive():
                found.append(identity)
    return found


def end(processes: Iterable[ProcessId], grace: float) -> list[ProcessId]:
    """SIGTERM all, SIGKILL what is left after `grace` seconds, and return what had to be killed."""
    pending = [process for process in processes if process.alive()]
    for process in pending:
        process.send(signal.SIGTERM)
    await_true(lambda: not any(process.alive() for process in pending), grace)
    stubborn = [process for process in pending if process.alive()]
    for process in stubborn:
        process.send(signal.SIGKILL)
    await_true(lambda: not any(process.alive() for process in stubborn), 5.0)
    return stubborn
