"""`./sluice soak`: random faults under traffic, run after run, until the time is up or a run fails.

Each run has a seed. It keeps a master, a slave and the apply busy for some seconds while processes are killed and
frozen, servers crash and connections break. Then it compares everything with the history.
"""

import argparse
import os
import shutil
import subprocess
import sys

from devstack.account import new_folder
from devstack.testing import ROOT, environment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tests/scenarios/faults/__main__.py`."""
    parser.description = __doc__
    parser.epilog = (
        "Examples: ./sluice soak --minutes 60    ./sluice soak --seed 17 --runs 5    ./sluice soak --slave mariadb"
    )
    parser.add_argument("--minutes", type=float, metavar="N", help="how long (default 10)")
    parser.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help="seed of the first run; each later run adds 1. Without --minutes: this run alone",
    )
    parser.add_argument("--runs", type=int, metavar="N", help="number of runs with the same seed, to repeat a failure")
    parser.add_argument(
        "--slave", choices=("postgres", "mariadb"), default="postgres", help="the slave's server (default postgres)"
    )


def run(args: argparse.Namespace) -> int:
    """Returns the exit status: 0 no run failed, 1 a run failed; its last lines say how to repeat it."""
    given = [(f"--{name}", getattr(args, name)) for name in ("minutes", "seed", "runs", "slave")]
    options = [text for name, value in given if value is not None for text in (name, str(value))]
    home = new_folder("sluice-soak-")
    command = [sys.executable, "-m", "tests.scenarios.faults", *options]
    status = subprocess.call(command, cwd=ROOT, env=environment(os.environ, home))
    if status == 0:  # after a failure the folder keeps the logs of the applies
        shutil.rmtree(home, ignore_errors=True)
    return status
