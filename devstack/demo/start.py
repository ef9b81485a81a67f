"""Starts a demo's servers, and makes the databases of master and first slave while Airflow still starts."""

import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from devstack.demo import leftovers, master, slave
from devstack.leftovers import read_process
from devstack.process import await_true
from devstack.runner import State
from devstack.stack import UP_TIMEOUT, Stack
from sluice.errors import Terminal

POLL = 0.1
SPARE_BYTES, BYTES_A_SCALE = 2 << 30, 80 << 20


def require_disk(folder: Path, scale: int, databases: int) -> None:
    """Raises `disk-too-small` when that many databases of the scale, with logs and queue, could fill the disk."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free, needed = shutil.disk_usage(existing).free, SPARE_BYTES + scale * BYTES_A_SCALE * databases
    if free < needed:
        raise Terminal(
            f"The disk of {folder} has {free >> 20:,} MB free, and this demo may need {needed >> 20:,} MB: choose a"
            f" smaller --scale, or another folder with SLUICE_HOME.",
            code="disk-too-small",
        )


def start(
    stack: Stack,
    first: str,
    scale: int,
    say: Callable[[str], None],
    enter: Callable[[str], None],
) -> None:
    """Starts everything, the server of the `first` slave included, and returns when all runs.

    It calls `enter` with the name of each stage. Raises the errors of
    `Stack.up`, `PgbenchFailed`, and the errors of psycopg and PyMySQL, after stopping everything.
    """
    with ThreadPoolExecutor(2) as pool:
        up = pool.submit(stack.up, lambda text: None)
        try:
            _make_databases(stack, first, scale, up, pool, enter)
            say(f"the master has its tables: pgbench's in scale {scale}, and the writer's")
            while not up.done():
                missing = [entry.name for entry in stack.status().services if entry.state is not State.RUNNING]
                enter("waiting for " + (", ".join(missing) or "Airflow"))
                time.sleep(POLL)
            up.result()
        except BaseException:
            _abandon(stack, up)
            raise


def _make_databases(
    stack: Stack, first: str, scale: int, up: Future[None], pool: ThreadPoolExecutor, enter: Callable[[str], None]
) -> None:
    """Makes the databases as soon as their servers run; Airflow takes longer."""
    needed = {"master", "redis", stack.services.service_of(first)}

    def ready() -> bool:
        return up.done() or needed.issubset(e.name for e in stack.status().services if e.state is State.RUNNING)

    await_true(ready, UP_TIMEOUT, POLL)
    if up.done():
        up.result()
    enter("making the master")
    leftovers.forget_replication(stack.redis_url)
    prepared = pool.submit(slave.make, stack.services.server(first))
    master.make(stack.master, scale, portable=stack.blueprint.mariadb)
    prepared.result()


def _abandon(stack: Stack, up: Future[None]) -> None:
    """Ends a start that another step made useless: it stops the supervisor, and `up` then fails."""
    reported = None
    while not up.done():
        supervisor = read_process(stack.home.supervisor)
        if supervisor and supervisor != reported:
            supervisor.send(signal.SIGTERM)
            reported = supervisor
        time.sleep(POLL)
