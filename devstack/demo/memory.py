"""Memory of everything that a demo runs: proportional set sizes, in which shared pages count once among their users."""

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
    """Bytes of one process, 0 when it is gone or may not be looked at."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def kind(name: str, command: str) -> str:
    """Which part of the stack a process belongs to."""
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
    """Bytes by part, for everything that the stack of this home started and for this process itself."""
    found: Counter[str] = Counter()
    for pid in {process.pid for process in everything(Home(home))} | {os.getpid()}:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            found[kind(process.name(), " ".join(process.cmdline()))] += proportional(pid)
    return dict(found)


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
