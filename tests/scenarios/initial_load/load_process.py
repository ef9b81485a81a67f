"""A load job in a process of its own, to be killed: reads a pickled `Update` from stdin."""

import pickle
import sys
import threading

from sluice.initial.job import LoadJob
from sluice.initial.loader import load_worker

if __name__ == "__main__":
    update = pickle.load(sys.stdin.buffer)
    with LoadJob(update) as job:
        other = threading.Thread(target=load_worker, args=[update, job.loader(2)], daemon=True)
        other.start()
        load_worker(update, job.loader(1))
        other.join()
