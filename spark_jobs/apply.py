"""The apply of one pair, a client of Spark: `python -m spark_jobs.apply < input.json`.

Runs until SIGTERM. Small windows are applied here; large ones are read and staged by Spark's executors.
"""

import os
import sys
import threading

import pyarrow as pa

from sluice import config
from sluice.apply.config_reload import keep_applying
from sluice.coordination import redis_store
from sluice.pair import Pair
from spark_jobs.job import JobInput, main
from spark_jobs.session import SparkExecutor


def run(job: JobInput, stop: threading.Event) -> None:
    _keep_pages_for_a_while()
    pair = Pair.of(config.load(job.prefix), job.slave, job.connections)
    executor = SparkExecutor(f"sluice {pair}: apply", job.endpoint)
    try:
        keep_applying(pair, job.connections, redis_store.connect(job.redis_url), executor, stop)
    finally:
        executor.stop()


def _keep_pages_for_a_while() -> None:
    """Arrow's usual allocator gives memory back at once; touching new pages took a fifth of a large window's time."""
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ and "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())


if __name__ == "__main__":
    sys.exit(main(run))
