"""Finds and ends processes that a stack left when its supervisor was killed."""

import json
import os
import signal
from collections.abc import Collection
from pathlib import Path

from devstack.home import Home
from devstack.postgres import PostgresServer
from devstack.process import ProcessId, await_true, descendants, end, marked
from devstack.redis import RedisServer
from devstack.server import Server
from devstack.services import MARKER

JOB_GRACE = 15.0
"""Seconds after SIGTERM in which a Spark job may end by itself."""


def servers(home: Home) -> list[Server]:
    """Returns every server whose files are in the home, even if the blueprint no longer names it."""
    clusters = sorted(path for path in (home.root / "postgres").glob("*") if (path / "data").exists())
    return [*(PostgresServer(path, name=f"PostgreSQL '{path.name}'") for path in clusters), RedisServer(home.redis)]


def processes(home: Home) -> list[ProcessId]:
    """Returns the running processes of the stack without its supervisor and its servers."""
    running = set(marked(MARKER, str(home.root)))
    apart = {process for server in servers(home) if (leader := server.process()) for process in descendants(leader.pid)}
    supervisor = read_process(home.supervisor)
    return sorted(running - apart - {supervisor, ProcessId.of(os.getpid())}, key=lambda process: process.pid)


def everything(home: Home) -> set[ProcessId]:
    """Returns all running processes of a stack.

    Servers overwrite their environment with their titles, so their pid files find them, not the marker.
    """
    running = set(processes(home))
    for server in servers(home):
        if leader := server.process():
            running |= set(descendants(leader.pid))
    return running | {process for process in [read_process(home.supervisor)] if process}


def any_left(home: Home) -> bool:
    """Whether processes or servers of the stack run. Ask it only when no supervisor runs."""
    return bool(processes(home)) or any(server.is_running() for server in servers(home))


def end_processes(home: Home, spared: Collection[int] = ()) -> list[ProcessId]:
    """Ends all processes but the servers. Airflow's components go first, so that no further job starts.

    Each job's session leader gets SIGTERM and ends its session in its own order. Processes that remain are ended one
    by one. Sessions of the leaders `spared` continue. Returns the processes that had to be killed.
    """

    def left() -> list[ProcessId]:
        return [process for process in processes(home) if _leader(process) not in spared]

    components = _component_sessions(home)
    end((process for process in left() if _leader(process) in components), grace=10.0)
    jobs = left()
    for job in jobs:
        if _leader(job) not in {other.pid for other in jobs} - {job.pid}:
            job.send(signal.SIGTERM)
    await_true(lambda: not any(job.alive() for job in jobs), JOB_GRACE)
    return end(left(), grace=3.0)


def end_all(home: Home) -> None:
    """Ends all processes of a stack without a supervisor, and removes the files with their pids."""
    end_processes(home)
    running = [server for server in servers(home) if server.is_running()]
    for server in running:
        if process := server.process():
            process.send(server.stop_signals[0][0])  # to all at once; stop() below waits
    for server in running:
        server.stop()
    for file in (home.services, home.supervisor):
        file.unlink(missing_ok=True)


def read_process(file: Path) -> ProcessId | None:
    """Returns the process that a JSON file records (`pid`, `started`), or None when it no longer runs."""
    try:
        values = json.loads(file.read_text())
        process = ProcessId.read(values)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return process if process.alive() else None


def kill_supervisor(home: Home) -> None:
    """Sends SIGKILL to a supervisor that does not stop, so that it restarts no service while they are ended."""
    if process := read_process(home.supervisor):
        process.send(signal.SIGKILL)


def _leader(process: ProcessId) -> int:
    try:
        return os.getsid(process.pid)
    except OSError:
        return process.pid


def _component_sessions(home: Home) -> set[int]:
    """Returns the session leaders of Airflow's components from the last reports. They decide the order only."""
    try:
        reports = json.loads(home.services.read_text())
    except (OSError, ValueError):
        return set()
    return {
        report["process"]["pid"] for report in reports if report["process"] and report["name"].startswith("airflow-")
    }
