"""The comparison of one table of a pair, as the task of an executor: what it is given, does and returns."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sluice.coordination import redis_store
from sluice.errors import SluiceError, Terminal
from sluice.model.names import TableName
from sluice.pair import Pair
from sluice.verify import report
from sluice.verify.compare import CompareOptions
from sluice.verify.report_types import Report
from sluice.verify.resync import Action, resync
from spark_jobs.endpoint import Endpoint
from spark_jobs.session import SparkExecutor


@dataclass(frozen=True)
class Compared:
    """What an executor returns. An error comes back as text: not all of them can be pickled."""

    lines: Sequence[tuple[int, str]]
    """The log: level and text."""
    report: Report | None = None
    failure: str = ""
    terminal: bool = False
    """Whether a person must fix the failure."""


@dataclass(frozen=True)
class Comparison:
    """The comparison of one table. It has passwords: never log it."""

    pair: Pair = field(repr=False)
    redis_url: str = field(repr=False)
    endpoint: Endpoint = field(repr=False)
    """Its executors share the reading of a large table."""
    table: TableName
    actions: str
    action: Action
    limit: int | None
    sample: int
    started: str

    def __call__(self, _number: int) -> Compared:
        """On an executor."""
        with _kept() as lines:
            try:
                return Compared(lines, self.reported())
            except SluiceError as error:
                return Compared(lines, failure=str(error), terminal=isinstance(error, Terminal))

    def reported(self) -> Report:
        """The report. Raises `StoreUnreachable`."""
        verify = self.pair.replication.verify
        made: list[SparkExecutor] = []

        def executors() -> SparkExecutor:
            if not made:
                made.append(SparkExecutor(f"sluice {self.pair}", self.endpoint))
            return made[0]

        # An archive of packages is a file of the machine that starts jobs, which executors do not have.
        shared = None if self.endpoint.packages else executors
        options = CompareOptions(frozenset(self.actions), verify.parallel, self.sample, shared)
        try:
            store = redis_store.connect(self.redis_url)
            result = resync(self.pair, store, self.table, options, self.action, self.limit)
        finally:
            for executor in made:
                executor.stop()
        pair = self.pair
        return report.as_dict(
            str(pair.prefix), pair.slave.name, str(self.action), self.started, [result], verify.mask
        )  # fmt: skip


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelno, self.format(record)))


@contextmanager
def _kept() -> Iterator[Sequence[tuple[int, str]]]:
    """The lines that the library logs meanwhile."""
    handler, logger = _Lines(), logging.getLogger("sluice")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield handler.lines
    finally:
        # Spark's worker continues with other tasks.
        logger.removeHandler(handler)
        logger.setLevel(level)
