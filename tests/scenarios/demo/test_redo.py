"""The demo of redo logs, from recorded output to a slave; a program and the supervisor are killed."""

import subprocess

import pytest

from tests.scenarios.demo.test_whole import demo, new_home
from tests.traces import nothing_runs


@pytest.mark.long
def test_the_slave_has_what_the_masters_transactions_leave() -> None:
    with new_home() as home:
        running = demo(home, "--once", "--redo", "--seed", "5")
        try:
            said, _ = running.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            running.terminate()
            raise
        assert running.returncode == 0, said
        for part in ("is killed", "takes over", "value for value"):
            assert part in said
        assert nothing_runs(home)
