"""The progress of this process's work in Spark, as its server reports it."""

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sluice.counted import counted

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import StageInfo


class TaskProgress:
    """A progress handler of a session, called from every thread that waits for a job."""

    def __init__(self) -> None:
        self._tasks: dict[str, tuple[int, int]] = {}
        """For each operation: the number of ended tasks, and of all tasks."""
        self._lock = threading.Lock()

    def __call__(
        self, stages: "Iterable[StageInfo] | None", inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        known = list(stages or ())
        with self._lock:
            if done:
                self._tasks.pop(operation_id or "", None)
            elif known:
                ended = sum(stage.num_completed_tasks for stage in known)
                self._tasks[operation_id or ""] = ended, sum(stage.num_tasks for stage in known)

    def __str__(self) -> str:
        """`3 of 8 tasks`, for all jobs together; empty without a job."""
        with self._lock:
            tasks = list(self._tasks.values())
        ended, known = sum(ended for ended, _ in tasks), sum(known for _, known in tasks)
        return f"{ended} of {counted(known, 'task')}" if tasks else ""
