"""The demo as a person runs it, from nothing to the verdict, and interrupted on its way."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded.account import new_folder
from embedded.home import REPOSITORY, Home
from tests.scenarios.demo.sockets import KINDS, Watch
from tests.traces import nothing_runs


@contextmanager
def new_home() -> Iterator[Path]:
    # Not under pytest's own folder: that is closed to the account that runs PostgreSQL.
    folder = new_folder("sluice-test-whole-")
    try:
        yield folder
    finally:
        subprocess.run([sys.executable, "-m", "embedded.cli", "down", "--quiet"], env=environment(folder), check=False)
        shutil.rmtree(folder, ignore_errors=True)


def environment(home: Path) -> dict[str, str]:
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "plugins")])
    return {**os.environ, "SLUICE_HOME": str(home), "PYTHONPATH": path}


def demo(home: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "embedded.cli", "demo", *options],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # As at a terminal, also where the tests themselves run in the background and ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@dataclass(frozen=True)
class Ran:
    """A demo that has ended, and what a stranger got from its sockets meanwhile."""

    home: Path
    status: int
    output: str
    watch: Watch


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    with new_home() as home:
        running = demo(home, "--once", "--scale", "1", "--seconds", "5", "--rate", "500", "--seed", "1")
        with Watch(Home(home), running.pid) as watch:
            output, _ = running.communicate(timeout=540)
        yield Ran(home, running.returncode, output, watch)


def test_a_demo_proves_that_all_tables_are_equal_and_leaves_nothing_running(ran: Ran) -> None:
    output = ran.output
    assert ran.status == 0, output
    assert "tables are equal, row for row: master, dr1." in output
    for part in ("dr1 is NORMAL, cdc_apply runs", "digest master", "rows/s", "p95", "0 of", "memory at most"):
        assert part in output, output
    assert "NO" not in [line.split()[-1] for line in output.splitlines() if line.strip()]
    assert nothing_runs(ran.home)


def test_no_socket_of_a_demo_answers_without_credentials(ran: Ran) -> None:
    assert ran.watch.answered == []
    # Spark's workers end with their share of the work: those of a small demo do not always last.
    assert ran.watch.seen >= {kind.name for kind in KINDS} - {"Spark's workers"}


@pytest.mark.long
def test_an_interrupted_demo_leaves_nothing_running() -> None:
    with new_home() as home:
        running = demo(home, "--scale", "1", "--seed", "1")
        assert running.stdout is not None
        for line in running.stdout:
            if "traffic starts" in line:
                break
        running.send_signal(signal.SIGINT)
        output, _ = running.communicate(timeout=300)
        assert running.returncode == 130, output
        assert nothing_runs(home)
