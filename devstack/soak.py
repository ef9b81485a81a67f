"""`./sluice soak`: random faults under traffic, run after run, until the time is up or one finds something.

Each run has a seed. It keeps a master, a slave and the apply between them busy for some seconds while processes are
killed and frozen, servers crash, connections break, and checks everything against the history afterwards.
"""

import argparse
import os
import shutil
import subprocess
import sys

from devstack.account import new_folder
from devstack.testing import ROOT, environment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tests/scenarios/faults/__main__.py`."""
    parser.description = __doc__
    parser.epilog = (
        "Examples: ./sluice soak --minutes 60    ./sluice soak --seed 17 --runs 5    ./sluice soak --slave mariadb"
    )
    parser.add_argument("--minutes", type=float, metavar="N", help="how long (default 10)")
    parser.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help="of the first run; each later one adds 1. Without --minutes: this run alone",
    )
    parser.add_argument(
        "--runs", type=int, metavar="N", help="of the seed, the same one each time, to repeat a failure"
    )
    parser.add_argument(
        "--slave", choices=("postgres", "mariadb"), default="postgres", help="what the slave is (default postgres)"
    )


def run(args: argparse.Namespace) -> int:
    """The exit status: 0 nothing found, 1 a run failed; its last words say how to repeat it."""
    given = [(f"--{name}", getattr(args, name)) for name in ("minutes", "seed", "runs", "slave")]
    options = [text for name, value in given if value is not None for text in (name, str(value))]
    home = new_folder("sluice-soak-")
    command = [sys.executable, "-m", "tests.scenarios.faults", *options]
    status = subprocess.call(command, cwd=ROOT, env=environment(os.environ, home))
    if status == 0:  # else it keeps the logs of the applies
        shutil.rmtree(home, ignore_errors=True)
    return status
