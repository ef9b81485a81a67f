"""A command that must end with its parent process does."""

import subprocess
import sys

from tests.library import ROOT
from tests.waiting import until

STARTS = """
import subprocess, sys, time
sys.path.insert(0, "plugins")
from sluice.with_parent import with_parent
child = subprocess.Popen(with_parent(["sleep", "600"]))
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_process_ends_when_the_run_that_started_it_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        number = int(run.stdout.readline())
        until(lambda: command_of(number).startswith("sleep"))
        run.kill()
    until(lambda: not command_of(number))


def command_of(number: int) -> str:
    """The command line; empty if the process has ended, reaped or not."""
    try:
        with open(f"/proc/{number}/cmdline") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""
