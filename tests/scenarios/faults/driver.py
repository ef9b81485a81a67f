"""The apply of a run as a process: `spark_jobs.apply` itself, or the same without Spark.

Further keys of the input on stdin: `executors`, whether Spark's executors stage (else threads of this process), and
in that case `spark_deadline`, how many seconds Spark is given beside what a window's size needs, and for an answer.
"""

import os
import sys
import threading
import time

from sluice import config
from sluice.apply import stage_driver
from sluice.apply.apply_loop import ApplyLoop
from sluice.coordination import redis_store
from sluice.executor import ThreadExecutor
from sluice.pair import Pair
from spark_jobs import apply, session
from spark_jobs.job import JobInput, main


def run(job: JobInput, stop: threading.Event) -> None:
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    if job.extra["executors"]:
        stage_driver.FIRST_SECONDS = 4 * job.extra["spark_seconds"]
        stage_driver.SECONDS = session.ANSWER_SECONDS = job.extra["spark_seconds"]
        session.LOOK_SECONDS = 15 * job.extra["spark_seconds"]
        apply.run(job, stop)
        return
    pair = Pair.of(config.load(job.prefix), job.slave, job.connections)
    ApplyLoop(pair, redis_store.connect(job.redis_url), ThreadExecutor(2), stop).run()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(run))
