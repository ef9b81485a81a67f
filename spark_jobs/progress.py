"""The progress of this process's work in Spark, as its server reports it."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sluice.counted import counted

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import StageInfo


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
