"""Captures one master from its redo logs: `python -m spark_jobs.capture_redo < input.json`. Runs until SIGTERM."""

import sys
import threading

from sluice import config
from sluice.coordination import redis_store
from sluice.redo.supervisor import Supervisor
from spark_jobs.job import JobInput, main


def run(job: JobInput, stop: threading.Event) -> None:
    Supervisor(config.load(job.prefix), redis_store.connect(job.redis_url)).run(stop)


if __name__ == "__main__":
    sys.exit(main(run))
