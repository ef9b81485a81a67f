"""The name of a job on Spark's pages: `sluice DEMO_ -> dr1: load public.orders 12/40`.

Spark's description of a job is the beginning of its request: 128 characters, with the session's id, the user's id, and
the user's name, which Spark only displays. So each request gets the job's name there.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sluice.counted import counted

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import StageInfo

# The progress of this process's work in Spark, as its server reports it.

WAITING_SECONDS = 5.0
"""A job none of whose tasks runs for so long waits for a slot."""


class TaskProgress:
    """A progress handler of a session, called from every thread that waits for a job."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tasks: dict[str, tuple[int, int]] = {}
        """For each operation: the number of ended tasks, and of all tasks."""
        self._idle: dict[str, float] = {}
        """For each operation of which no task runs: since when."""
        self._lock = threading.Lock()

    def __call__(
        self, stages: "Iterable[StageInfo] | None", inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        known = list(stages or ())
        with self._lock:
            operation = operation_id or ""
            if done:
                self._tasks.pop(operation, None)
            elif known:
                ended = sum(stage.num_completed_tasks for stage in known)
                self._tasks[operation] = ended, sum(stage.num_tasks for stage in known)
            if done or not known or inflight_tasks:
                self._idle.pop(operation, None)
            else:
                self._idle.setdefault(operation, self._clock())

    @property
    def waits(self) -> bool:
        """Whether a job waits for a free slot."""
        with self._lock:
            return any(self._clock() - since >= WAITING_SECONDS for since in self._idle.values())

    def __str__(self) -> str:
        """`3 of 8 tasks`, for all jobs together; empty without a job."""
        with self._lock:
            tasks = list(self._tasks.values())
        ended, known = sum(ended for ended, _ in tasks), sum(known for _, known in tasks)
        return f"{ended} of {counted(known, 'task')}" if tasks else ""


class JobName:
    """The name of the job that the calling thread begins next."""

    def __init__(self) -> None:
        self._of = threading.local()

    def __str__(self) -> str:
        return getattr(self._of, "name", "")

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Names the jobs that this thread begins in the context."""
        self._of.name = name
        try:
            yield
        finally:
            self._of.name = ""


class NamingChannel:
    """A channel of grpc whose requests to run something have the name of the calling thread.

    It is no interceptor of grpc: those look the method up for each request, which on a closed channel ends the whole
    process (grpcio 1.85.1, a segmentation fault).
    """

    def __init__(self, channel: Any, name: JobName):
        self._channel = channel
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._channel, attribute)

    def unary_stream(self, method: str, *args: Any, **options: Any) -> Callable[..., Any]:
        """See grpc."""
        call: Callable[..., Any] = self._channel.unary_stream(method, *args, **options)
        if not method.endswith("/ExecutePlan"):
            return call

        def named(request: Any, **options: Any) -> Any:
            request.user_context.user_name = str(self._name)
            return call(request, **options)

        return named


def naming_channels(url: str, name: JobName) -> "DefaultChannelBuilder":
    """A builder of a session's channel to `url`."""
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    class Builder(DefaultChannelBuilder):
        def toChannel(self) -> Any:  # noqa: N802  so pyspark calls it
            return NamingChannel(super().toChannel(), name)

    return Builder(url)
