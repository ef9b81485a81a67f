"""The apply of a run as a process: `spark_jobs.apply` itself, or the same without Spark.

Further key of the input on stdin: `executors`, whether Spark's executors stage (else threads of this process).
"""

import os
import sys
import threading
import time

from sluice import config
from sluice.apply.loop import Apply
from sluice.apply.spread import InThreads
from sluice.pair import Pair
from sluice.stores import redis_store
from spark_jobs import apply
from spark_jobs.job import JobInput, main


def run(job: JobInput, stop: threading.Event) -> None:
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    if job.extra["executors"]:
        apply.run(job, stop)
        return
    pair = Pair.of(config.load(job.prefix), job.slave, job.connections)
    Apply(pair, redis_store.connect(job.redis_url), InThreads(2), stop).run()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(run))
