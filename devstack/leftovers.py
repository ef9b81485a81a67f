"""What a stack left running when its supervisor was killed, and how it is ended."""

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
"""Seconds in which a Spark job ends by itself after SIGTERM."""


def servers(home: Home) -> list[Server]:
    """Every server whose files are in the home, whatever the blueprint says now."""
    clusters = sorted(path for path in (home.root / "postgres").glob("*") if (path / "data").exists())
    return [*(PostgresServer(path, name=f"PostgreSQL '{path.name}'") for path in clusters), RedisServer(home.redis)]


def processes(home: Home) -> list[ProcessId]:
    """Everything of the stack that runs, its supervisor and its servers excepted."""
    found = set(marked(MARKER, str(home.root)))
    apart = {process for server in servers(home) if (leader := server.process()) for process in descendants(leader.pid)}
    supervisor = read_process(home.supervisor)
    return sorted(found - apart - {supervisor, ProcessId.of(os.getpid())}, key=lambda process: process.pid)


def everything(home: Home) -> set[ProcessId]:
    """All that runs of a stack, its servers and its supervisor included.

    The servers write their titles over their environment: they are found by their pid files, not by the mark.
    """
    found = set(processes(home))
    for server in servers(home):
        if leader := server.process():
            found |= set(descendants(leader.pid))
    return found | {process for process in [read_process(home.supervisor)] if process}


def any_left(home: Home) -> bool:
    """Whether something runs although no supervisor does."""
    return bool(processes(home)) or any(server.is_running() for server in servers(home))


def end_processes(home: Home, spared: Collection[int] = ()) -> list[ProcessId]:
    """End everything but the servers: the components of Airflow first, so that nobody starts further jobs.

    Of each job only the leader of its session is told, which ends the rest in its own order; what then still runs is
    ended one by one. Sessions led by the pids `spared` go on. Returns what did not end by itself.
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
    """End everything of a stack without a supervisor, and forget its pids."""
    end_processes(home)
    running = [server for server in servers(home) if server.is_running()]
    for server in running:
        if process := server.process():
            process.send(server.stop_signals[0][0])  # all at once; stop() below waits, and insists
    for server in running:
        server.stop()
    for file in (home.services, home.supervisor):
        file.unlink(missing_ok=True)


def read_process(file: Path) -> ProcessId | None:
    """A process as recorded in a JSON file (`pid`, `started`), if it still runs."""
    try:
        values = json.loads(file.read_text())
        process = ProcessId.read(values)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return process if process.alive() else None


def kill_supervisor(home: Home) -> None:
    """Last resort when it does not stop: nothing may start services again while they are ended."""
    if process := read_process(home.supervisor):
        process.send(signal.SIGKILL)


def _leader(process: ProcessId) -> int:
    try:
        return os.getsid(process.pid)
    except OSError:
        return process.pid


def _component_sessions(home: Home) -> set[int]:
    """The sessions of Airflow's components, as last recorded: an order of ending, no licence to end anything."""
    try:
        reports = json.loads(home.services.read_text())
    except (OSError, ValueError):
        return set()
    return {
        report["process"]["pid"] for report in reports if report["process"] and report["name"].startswith("airflow-")
    }
