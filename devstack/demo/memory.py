"""Measures the memory of all processes of a demo as proportional set sizes, which divide shared pages by their
users."""

import contextlib
import os
import threading
from collections import Counter
from pathlib import Path

import psutil

from devstack.home import Home
from devstack.leftovers import everything

INTERVAL = 5.0


def proportional(pid: int) -> int:
    """Returns the bytes of one process, or 0 when it has ended or may not be read."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def kind(name: str, command: str) -> str:
    """Returns the part of the stack to which a process belongs."""
    if "postgres" in name or "pgbench" in name:
        return "PostgreSQL" if "postgres" in name else "demo"
    if "mariadb" in name:
        return "MariaDB"
    if "java" in name or "spark" in command:
        return "Spark"
    if "redis" in name:
        return "Redis"
    return "Airflow" if "airflow" in command else "demo"


def measure(home: Path) -> dict[str, int]:
    """Returns the bytes by part, of all processes of the home's stack and of this process."""
    sizes: Counter[str] = Counter()
    for pid in {process.pid for process in everything(Home(home))} | {os.getpid()}:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            sizes[kind(process.name(), " ".join(process.cmdline()))] += proportional(pid)
    return dict(sizes)


class MemoryWatch(threading.Thread):
    """Measures every few seconds and keeps the largest total with its parts."""

    def __init__(self, home: Path) -> None:
        super().__init__(name="memory", daemon=True)
        self._home = home
        self._stopping = threading.Event()
        self.peak: dict[str, int] = {}
        self.now: dict[str, int] = {}

    def run(self) -> None:
        while not self._stopping.wait(INTERVAL):
            self.now = measure(self._home)
            if sum(self.now.values()) > sum(self.peak.values()):
                self.peak = self.now

    def stop(self) -> None:
        self._stopping.set()
