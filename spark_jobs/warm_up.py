"""Runs a first job on a Connect server: `python -m spark_jobs.warm_up`, with the fields of an `Endpoint` on stdin.

The first job of a server takes seconds, in which its JVM loads classes and its Python workers start.
"""

import json
import sys

from sluice.errors import SluiceError
from spark_jobs.endpoint import Endpoint
from spark_jobs.session import SparkExecutor


def warm_up(endpoint: Endpoint) -> None:
    """Returns when a job has run. Raises `ExecutorsFailed`, `executors-differ`."""
    executor = SparkExecutor("sluice", endpoint)
    try:
        executor.map(lambda number: number, executor.parallelism, "warm up")
    finally:
        executor.stop()


def main() -> int:
    try:
        warm_up(Endpoint.read(json.loads(sys.stdin.read())))
    except SluiceError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
