"""The demo as a person runs it, from nothing to the verdict, and interrupted half-way."""

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

from devstack.account import new_folder
from devstack.home import REPOSITORY, Home
from tests.scenarios.demo.secrets import Processes, files_with, open_to_others, secrets_of
from tests.scenarios.demo.sockets import KINDS, Watch
from tests.traces import nothing_runs


@contextmanager
def new_home() -> Iterator[Path]:
    # Not under pytest's own folder: that is closed to the account that runs PostgreSQL.
    folder = new_folder("sluice-test-whole-")
    try:
        yield folder
    finally:
        subprocess.run([sys.executable, "-m", "devstack.cli", "down", "--quiet"], env=environment(folder), check=False)
        shutil.rmtree(folder, ignore_errors=True)


def environment(home: Path) -> dict[str, str]:
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "plugins")])
    return {**os.environ, "SLUICE_HOME": str(home), "PYTHONPATH": path}


def demo(home: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "devstack.cli", "demo", *options],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # As at a terminal, also where the tests themselves run in the background and ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


HANGS_AFTER = 840
"""Seconds, fewer than pytest's own guard has: the output is shown. A slow machine that does other work needs 600."""
REPAIR = ("--repair", "--why", "to see that nothing is done")


def output_of(running: "subprocess.Popen[str]") -> str:
    """Waits for the end of a demo. One that hangs is interrupted, and fails the test with its output."""
    try:
        return running.communicate(timeout=HANGS_AFTER)[0]
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGINT)
        pytest.fail(f"not done after {HANGS_AFTER} s:\n{running.communicate()[0]}")


def run(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command beside the running servers of a demo."""
    return subprocess.run(
        [sys.executable, "-m", "devstack.cli", *arguments],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )


@dataclass(frozen=True)
class Ran:
    """A finished demo, the answers of its sockets to a client without credentials, and what its processes showed."""

    home: Path
    status: int
    output: str
    watch: Watch
    processes: Processes


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    with new_home() as home:
        running = demo(home, "--once", "--scale", "1", "--seconds", "5", "--rate", "500", "--seed", "1")
        with Watch(Home(home), running.pid) as watch, Processes() as processes:
            output = output_of(running)
        yield Ran(home, running.returncode, output, watch, processes)


@pytest.mark.long
def test_a_demo_proves_that_all_tables_are_equal_and_leaves_nothing_running(ran: Ran) -> None:
    output = ran.output
    assert ran.status == 0, output
    assert "tables are equal, row for row: master, dr1." in output
    for part in ("dr1 is NORMAL, cdc_apply runs", "digest master", "rows/s", "p95", "0 of", "memory at most"):
        assert part in output, output
    assert "NO" not in [line.split()[-1] for line in output.splitlines() if line.strip()]
    assert nothing_runs(ran.home)


@pytest.mark.long
def test_no_socket_of_a_demo_answers_without_credentials(ran: Ran) -> None:
    assert ran.watch.answered == []
    # Spark's workers end with their share of the work: those of a small demo do not always last.
    assert ran.watch.seen >= {kind.name for kind in KINDS} - {"Spark's workers"}


@pytest.mark.long
def test_no_password_of_a_demo_is_shown_by_a_process_or_in_a_log_or_in_a_file_that_others_can_read(ran: Ran) -> None:
    home = Home(ran.home)
    secrets = secrets_of(home)
    assert len(secrets) >= 8 and all(len(secret) >= 12 for secret in secrets.values()), secrets.keys()
    assert any("spark_jobs.load" in command for command in ran.processes.commands), "the jobs were not met"
    assert [command for command in ran.processes.commands if any(each in command for each in secrets.values())] == []
    # Airflow takes its own settings from its environment, which the owner alone can read: its database, and Redis.
    replicated = [secret for file, secret in secrets.items() if {"master", "slave-dr1"} & set(file.parts)]
    assert len(replicated) >= 4 and any(str(ran.home) in each for each in ran.processes.environments)
    assert [each for each in ran.processes.environments if any(secret in each for secret in replicated)] == []
    assert all(secret not in ran.output for secret in secrets.values())
    found = files_with(home, list(secrets.values()))
    assert set(secrets) <= set(found), "what is looked for is found where it must be"
    assert [file for file in found if open_to_others(home, file)] == []
    assert [file for file in found if "logs" in file.relative_to(ran.home).parts or file.name == "log"] == []
    assert list(home.logs.glob("jobs/*.log")) and list(home.airflow.glob("logs/**/*.log")), "there are logs"


@pytest.mark.long
def test_a_demo_with_a_mariadb_and_a_postgres_behind_one_master_proves_both_equal_and_resync_agrees() -> None:
    with new_home() as home:
        running = demo(home, "--slave", "mariadb", "--slaves", "2", "--scale", "1", "--seconds", "5", "--seed", "1")
        output = output_of(running)
        assert running.returncode == 0, output
        assert "tables are equal, row for row: master, mariadb, dr1." in output
        assert "half transactions seen on mariadb  0 of" in output
        compared, repaired = (run(home, "verify", "DEMO_", "mariadb", *options) for options in ((), REPAIR))
        for done in (compared, repaired):
            assert done.returncode == 0 and " identical\n" in done.stdout, done.stdout
        assert "DEMO_ → mariadb: NORMAL" in run(home, "status").stdout


@pytest.mark.long
def test_a_demo_with_a_mariadb_as_its_master_proves_the_slave_equal_and_resync_agrees() -> None:
    with new_home() as home:
        running = demo(home, "--master", "mariadb", "--scale", "1", "--seconds", "5", "--seed", "1")
        output = output_of(running)
        assert running.returncode == 0, output
        assert "All 14 tables are equal, row for row: master, dr1." in output
        assert "half transactions seen on dr1  0 of" in output
        compared = run(home, "verify", "DEMO_", "dr1")
        assert compared.returncode == 0 and ": 14 identical\n" in compared.stdout, compared.stdout


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
