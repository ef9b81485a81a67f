"""`./sluice soak`: one run after another, until the time is up or one finds something."""

import argparse
import itertools
import logging
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import SystemRandom

from devstack.soak import add_arguments
from tests.scenarios.faults.plan import plan, plan_of_mariadb
from tests.scenarios.faults.run import RunFailed, run
from tests.scenarios.faults.servers import Servers

MINUTES = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 nothing found, 1 a run failed."""
    parser = argparse.ArgumentParser(prog="./sluice soak")
    add_arguments(parser)
    args = parser.parse_args(arguments)
    for name in ("psycopg", "sluice"):  # connections that break are what this is about
        logging.getLogger(name).setLevel(logging.ERROR)
    first = SystemRandom().randrange(1, 1_000_000) if args.seed is None else args.seed
    if args.minutes is None and args.seed is not None:
        seeds: Iterator[int] = itertools.repeat(first, args.runs or 1)
    else:
        seeds = itertools.islice(itertools.count(first), args.runs)
    counted = args.seed is not None or args.runs is not None
    minutes = args.minutes if args.minutes is not None else math.inf if counted else MINUTES
    until, done = time.monotonic() + 60 * minutes, 0
    logs = Path(tempfile.mkdtemp(prefix="sluice-soak-logs-"))
    print(f"Seeds from {first} on. Logs of the applies: {logs}", flush=True)
    with Servers() as servers:
        for seed in seeds:
            if done and time.monotonic() > until:
                break
            chosen = plan_of_mariadb(seed) if args.slave == "mariadb" else plan(seed)
            try:
                result = run(chosen, servers, logs / f"{done}-{seed}")
                told = "\n  ".join([str(result), *(result.happened if args.minutes is None and args.seed else ())])
                print(told, flush=True)
            except RunFailed as failure:
                print(f"FAILED. {failure}", flush=True)
                return 1
            done += 1
    print(f"{done} runs, nothing found")
    shutil.rmtree(logs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
