"""Compares tables of a pair, and repairs them if requested: `python -m spark_jobs.resync`, with its input on stdin.

Further keys of the input (see `spark_jobs.job`): `tables`, each with schema, name and the actions that are replicated;
`action`, `limit` and `sample`, see `sluice.verify.resync`; `started`, for the report; `report`, the file of the report.

With an endpoint of Spark, tasks of it do all of this: this process gets the reports, and no row. Without one, the
process compares, and starts its own server for tables above `verify.spark_above`.
"""

import json
import logging
import signal
import sys
import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import FrameType

from sluice import config, whole_files
from sluice.errors import Terminal, Transient
from sluice.executor import run_with_heartbeat
from sluice.exit_status import TRANSIENT
from sluice.model.names import TableName
from sluice.pair import Pair
from sluice.verify import report
from sluice.verify.report_types import Report
from sluice.verify.resync import Action
from spark_jobs.comparison import Comparison
from spark_jobs.endpoint import Endpoint
from spark_jobs.job import JobInput, main
from spark_jobs.session import SparkExecutor

log = logging.getLogger("sluice.job")

LIMIT_SECONDS = 86_400.0
"""A comparison without an end for so long is given up."""


def run(job: JobInput, _stop: threading.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    extra = job.extra
    pair = Pair.of(config.load(job.prefix), job.slave, job.connections)
    comparisons = [
        Comparison(
            pair, job.redis_url, job.endpoint, TableName(schema, name), actions, Action(extra["action"]),
            extra["limit"], extra["sample"], extra["started"],
        )
        for schema, name, actions in extra["tables"]
    ]  # fmt: skip
    if job.endpoint.remote:
        reports = _by_executors(f"sluice {pair}", job.endpoint, comparisons)
    else:
        reports = [comparison.reported() for comparison in comparisons]
    whole_files.write(Path(extra["report"]), json.dumps(report.joined(reports), ensure_ascii=False))


def _by_executors(name: str, endpoint: Endpoint, comparisons: Iterable[Comparison]) -> list[Report]:
    """Raises `ExecutorsFailed`, and what a comparison raised."""
    executor, reports, waits = SparkExecutor(name, endpoint), [], ""

    def tell() -> None:
        nonlocal waits
        if executor.waits != waits:
            waits = executor.waits
            log.warning("%s: %s", name, waits or "Spark runs the comparison")

    try:
        for comparison in comparisons:
            what = f"{comparison.action} {comparison.table}"
            work = partial(executor.map, comparison, 1, what)
            (done,) = run_with_heartbeat(work, tell, LIMIT_SECONDS)
            for level, line in done.lines:
                log.log(level, "%s", line)
            if done.report is None:
                raise (
                    Terminal(done.failure, code="comparison-failed")
                    if done.terminal
                    else Transient(done.failure, code="comparison-interrupted")
                )
            reports.append(done.report)
    finally:
        executor.stop()
    return reports


def _end(_number: int, _frame: FrameType | None) -> None:
    """Raised where the comparison waits; everything that it holds is released on the way out."""
    raise SystemExit(TRANSIENT)


if __name__ == "__main__":
    sys.exit(main(run))
