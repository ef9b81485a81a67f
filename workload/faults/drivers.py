"""The processes of jobs that Spark runs."""

import contextlib

import psutil

from devstack.process import ProcessId, session


def driver_of(runner: int) -> ProcessId | None:
    """The Python process of a job, found in the session that its runner leads; None before it is there."""
    for process in session(runner):
        with contextlib.suppress(psutil.Error):
            command = psutil.Process(process.pid).cmdline()
            if process.pid != runner and any("spark_jobs." in part for part in command):
                return process
    return None
