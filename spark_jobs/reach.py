"""Whether Spark's executors reach what their work needs: databases, Redis, and the endpoint itself."""

import socket
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from sluice.coordination import redis_store
from sluice.database.registry import reach
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from spark_jobs.endpoint import Endpoint
from spark_jobs.session import SparkExecutor

REDIS, ENDPOINT = "Redis", "Spark Connect"
CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class Unreached:
    """Something that an executor does not reach."""

    side: str
    """A side of the replication, `REDIS` or `ENDPOINT`."""
    server: str
    host: str
    """Of the executor."""
    reason: str


@dataclass(frozen=True)
class ReachTask:
    """The task of an executor. It has passwords: never log it."""

    sides: Sequence[tuple[str, ConnectionInfo]] = field(repr=False)
    redis_url: str = field(repr=False)
    endpoint: Endpoint = field(repr=False)

    def __call__(self, _number: int) -> list[Unreached]:
        """What is not reached from here."""
        host, found = socket.gethostname(), []
        for side, info in self.sides:
            try:
                with reach(info, "sluice check"):
                    pass
            except SluiceError as error:
                found.append(Unreached(side, info.server, host, str(error)))
        try:
            with closing(redis_store.connect(self.redis_url)) as client:
                client.ping()
        except SluiceError as error:
            found.append(Unreached(REDIS, redis_store.address_of(self.redis_url).server, host, str(error)))
        parts = urlsplit(self.endpoint.remote)
        try:
            socket.create_connection((parts.hostname or "", parts.port or 15002), CONNECT_SECONDS).close()
        except OSError as error:
            found.append(Unreached(ENDPOINT, str(self.endpoint), host, str(error)))
        return found


def unreached(name: str, task: ReachTask) -> list[Unreached]:
    """Asks as many tasks as run at once by default; `name` begins the job's name. Raises `ExecutorsFailed`, and what
    needs a person: `executors-differ`, `spark-release-differs`."""
    executor = SparkExecutor(name, task.endpoint)
    try:
        answers = executor.map(task, executor.parallelism, "check what executors reach")
    finally:
        executor.stop()
    return sorted({one for answer in answers for one in answer}, key=str)
