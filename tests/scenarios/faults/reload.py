"""An initial update of all tables during faults, with the load in a process that can be killed."""

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from sluice import pair
from sluice.errors import Transient
from sluice.load.update import Update
from sluice.vendors.postgres.connection import connect
from tests.scenarios.faults.applies import REPOSITORY
from tests.scenarios.faults.joiner import PAUSE_SECONDS, Steps
from tests.scenarios.faults.servers import Servers
from tests.scenarios.initial_load import load_process
from workload.tables import EVERY

AGE_SECONDS = 1.0
"""A process that loads is killed no earlier: by then it does."""


class LoadLeft(Transient):
    """The process of the load has ended early."""


class Reload(Steps):
    """Does what the DAG `initial_update` does for a NORMAL slave, once there are enough rows."""

    what = "the slave was loaded"

    def __init__(self, ends: pair.Pair, servers: Servers, folder: Path, enough_rows: Callable[[], bool]):
        """`enough_rows()`: whether the master has so many rows that a load lasts."""
        infos = {name: replace(info, port=servers.proxies[name].port)
                 for name, info in (("master", ends.master_info), ("slave", ends.slave_info))}  # fmt: skip
        super().__init__(replace(ends, master_info=infos["master"], slave_info=infos["slave"]), servers.redis_url)
        self._folder = folder
        self._enough_rows = enough_rows
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._lock = threading.Lock()

    def stop(self) -> None:
        super().stop()
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def kill(self) -> bool:
        """Kills the load; returns whether there was a process."""
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None or time.monotonic() - self._began < AGE_SECONDS:
                return False
            process.kill()
        return True

    def _steps(self) -> Iterator[Callable[[], object]]:
        yield self._await_rows
        following = self._of_update(Update.named(self._pair, "reload"))
        yield next(following)  # from here on the apply waits
        yield self._drop_tables
        yield from following

    def _drop_tables(self) -> None:
        """Drops the slave's tables, as a person does if the master's definitions have changed since: they are created
        again."""
        with connect(self._pair.slave_info, application="reload") as slave:
            slave.execute(f"DROP TABLE IF EXISTS {EVERY} CASCADE")
            slave.execute("DROP TYPE IF EXISTS public.feeling CASCADE")

    def _await_rows(self) -> None:
        while not self._enough_rows() and not self._enough.wait(PAUSE_SECONDS):
            pass

    def _load(self, update: Update) -> None:
        with open(self._folder / "load.log", "ab") as log, self._lock:
            if self._enough.is_set():
                return
            self._began = time.monotonic()
            self._process = subprocess.Popen(
                [sys.executable, "-m", load_process.__name__], stdin=subprocess.PIPE, stdout=log, stderr=log,
                env={**os.environ, "PYTHONPATH": f"{REPOSITORY / 'plugins'}:{REPOSITORY}"},
            )  # fmt: skip
        process = self._process
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(partial(load_process.load, update)))
        process.stdin.close()
        if process.wait() != 0 and not self._enough.is_set():
            raise LoadLeft(f"the process that loads ended with {process.returncode}; see {self._folder / 'load.log'}")
