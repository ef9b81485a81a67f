"""A process that runs a part of a load, to be killed: a pickled function, read from stdin."""

import pickle
import sys
import threading

from sluice.errors import Transient
from sluice.load.load_job import LoadJob
from sluice.load.load_snapshot import LoadSnapshot
from sluice.load.loader import load_worker
from sluice.load.update import Update


def load(update: Update) -> None:
    """Runs a load job of two loaders."""
    with LoadJob(update) as job, LoadSnapshot(update):

        def run(number: int) -> None:
            try:
                load_worker(update, job.loader(number))
            except Transient as reason:
                failures.append(reason)

        failures: list[Transient] = []
        other = threading.Thread(target=run, args=[2], daemon=True)
        other.start()
        run(1)
        other.join()
    if failures:
        sys.exit(str(failures[0]))


if __name__ == "__main__":
    pickle.load(sys.stdin.buffer)()
