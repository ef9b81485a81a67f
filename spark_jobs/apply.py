"""The apply of one pair, a client of Spark: `python -m spark_jobs.apply < input.json`.

Runs until SIGTERM. Small windows are applied here; large ones are read and staged by Spark's executors.
"""

import sys
import threading

from sluice import config
from sluice.apply.apply_loop import keep_applying
from sluice.coordination import redis_store
from sluice.pair import Pair
from spark_jobs.allocator import keep_pages_for_a_while
from spark_jobs.job import JobInput, main
from spark_jobs.session import SparkExecutor


def run(job: JobInput, stop: threading.Event) -> None:
    keep_pages_for_a_while()
    pair = Pair.of(config.load(job.prefix), job.slave, job.connections)
    executor = SparkExecutor(f"sluice {pair}", job.endpoint)
    try:
        keep_applying(pair, job.connections, redis_store.connect(job.redis_url), executor, stop)
    finally:
        executor.stop()


if __name__ == "__main__":
    sys.exit(main(run))
