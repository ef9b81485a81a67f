"""Processes by identity: a pid alone may have been given to somebody else meanwhile."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class ProcessId:
    """A pid with the time its process started (seconds since the epoch)."""

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The identity of a running process, None when there is none."""
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    def alive(self) -> bool:
        """Whether that very process still runs; a zombie does not."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < 0.5
            # A zombie whose threads are still ending holds its ports and files.
            return same and (process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
        except psutil.Error:
            return False

    def send(self, number: int) -> None:
        """Signal the process; one that is gone is no error."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def await_true(condition: Callable[[], bool], timeout: float, interval: float = 0.05) -> bool:
    """Poll until the condition holds; False when it still does not after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval)
    return True


def descendants(pid: int) -> list[ProcessId]:
    """The process and everything below it, children first-known order; empty when it is gone."""
    try:
        process = psutil.Process(pid)
        found = [process, *process.children(recursive=True)]
    except psutil.Error:
        return []
    return [identity for entry in found if (identity := ProcessId.of(entry.pid))]


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
