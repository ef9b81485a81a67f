"""Compares one table of a pair, and repairs it if requested: `python -m spark_jobs.resync`, with its input on stdin.

Further keys of the input (see `spark_jobs.job`): `table`, schema and name; `actions` that are replicated; `action`,
`limit` and `sample`, see `sluice.verify.resync`; `started`, for the report; `report`, the file of the report. Large
tables are read by Spark's executors; a session is opened for the first of them.
"""

import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from sluice import config, whole_files
from sluice.coordination import redis_store
from sluice.exit_status import TRANSIENT
from sluice.model.names import TableName
from sluice.pair import Pair
from sluice.verify import report
from sluice.verify.compare_options import CompareOptions
from sluice.verify.resync import Action, resync
from spark_jobs.job import JobInput, main
from spark_jobs.session import SparkExecutor


def run(job: JobInput, _stop: threading.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    replication = config.load(job.prefix)
    pair = Pair.of(replication, job.slave, job.connections)
    extra = job.extra
    made: list[SparkExecutor] = []

    def executors() -> SparkExecutor:
        if not made:
            made.append(SparkExecutor(f"sluice {pair}", job.endpoint))
        return made[0]

    try:
        result = resync(
            pair,
            redis_store.connect(job.redis_url),
            TableName(*extra["table"]),
            CompareOptions(frozenset(extra["actions"]), replication.verify.parallel, extra["sample"], executors),
            Action(extra["action"]),
            extra["limit"],
        )
    finally:
        for executor in made:
            executor.stop()
    reported = report.as_dict(
        job.prefix, job.slave, extra["action"], extra["started"], [result], replication.verify.mask
    )
    whole_files.write(Path(extra["report"]), json.dumps(reported, ensure_ascii=False))


def _end(_number: int, _frame: FrameType | None) -> None:
    """Raised where the comparison waits; everything that it holds is released on the way out."""
    raise SystemExit(TRANSIENT)


if __name__ == "__main__":
    sys.exit(main(run))
