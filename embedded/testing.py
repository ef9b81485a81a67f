"""`./sluice test`: the whole suite, or what the arguments of pytest select."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

WHOLE = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")
"""Of a run of every test: files side by side, each with servers of its own. Most of the time goes into waiting, so even
two cores carry three of them in little more than half the time of one. `tests/conftest.py` says in which order."""

_SETTINGS = ("AIRFLOW", "SLUICE_", "PYTEST_", "PG", "SPARK_", "AWS_", "REDIS")
"""Beginnings of variables that would make the tests reach for somebody's real servers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything is passed on to pytest; without arguments every test runs, `WHOLE`."""
    parser.description = __doc__
    parser.epilog = "Examples: ./sluice test    ./sluice test tests/unit -x    ./sluice test -k compose"
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="arguments of pytest (default: every test)")


def run(args: argparse.Namespace) -> int:
    """The exit code of pytest.

    State goes to a folder of its own, so that tests never touch a stack that is up.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-test-", ignore_cleanup_errors=True) as home:
        command = [sys.executable, "-m", "pytest", "--durations=10", *(args.arguments or WHOLE)]
        return subprocess.call(command, cwd=ROOT, env=environment(os.environ, Path(home)))


def environment(given: Mapping[str, str], home: Path) -> dict[str, str]:
    """What the tests see: the user's environment less settings that lead to real servers."""
    kept = {name: value for name, value in given.items() if not name.startswith(_SETTINGS)}
    return {
        **kept,
        "SLUICE_HOME": str(home / "home"),
        "AIRFLOW_HOME": str(home / "airflow"),
        "PYTHONPATH": f"{ROOT / 'plugins'}{os.pathsep}{ROOT}",
    }
