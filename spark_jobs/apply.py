"""The apply of one pair as a Spark driver: `python -m spark_jobs.apply < input.json`.

Runs until SIGTERM. Small windows are applied here; large ones are read and staged by executors.
"""

import sys
import threading

from sluice import config
from sluice.apply.loop import Apply
from sluice.apply.pair import Pair
from sluice.stores import redis_store
from spark_jobs.job import JobInput, main
from spark_jobs.session import SparkSpread


def run(job: JobInput, stop: threading.Event) -> None:
    pair = Pair.of(config.load(job.prefix), job.slave, job.connections)
    spread = SparkSpread(f"sluice apply {pair}", job.spark_master, job.spark_conf)
    try:
        Apply(pair, redis_store.connect(job.redis_url), spread, stop).run()
    finally:
        spread.stop()


if __name__ == "__main__":
    sys.exit(main(run))
