"""The machine a bench ran on."""

import os
import platform
import threading
from pathlib import Path
from typing import Any

import psutil

from benchmarks.cpu import Roots, below
from devstack.demo.memory import proportional

# The most memory that the processes of a side had at one time: proportional set sizes, so that shared pages count
# once among their users.

INTERVAL = 0.25


class MemoryWatch(threading.Thread):
    """`with MemoryWatch(roots) as watch: …`; afterwards `watch.peak` is in bytes, 0 where nothing was to be watched."""

    def __init__(self, roots: Roots) -> None:
        super().__init__(name="memory", daemon=True)
        self._roots = roots
        self._stopping = threading.Event()
        self.peak = 0

    def __enter__(self) -> "MemoryWatch":
        self._look()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join()
        self._look()

    def run(self) -> None:
        while not self._stopping.wait(INTERVAL):
            self._look()

    def _look(self) -> None:
        family = {pid for root in self._roots().values() for pid in below(root)}
        self.peak = max(self.peak, sum(proportional(pid) for pid in family))


def describe() -> dict[str, Any]:
    """For the detail of a report."""
    return {
        "machine": {
            "cores": os.cpu_count(),
            "cpu": _model(),
            "memory": psutil.virtual_memory().total,
            "system": platform.platform(),
            "Python": platform.python_version(),
        }
    }


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
