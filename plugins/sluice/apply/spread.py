"""Spreading the reading and staging of a large window over many processes."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from sluice.errors import Transient

T = TypeVar("T")


class ExecutorsFailed(Transient):
    """A task died with its process, again and again. The window is taken anew."""


class SpreadLost(Transient):
    """Nothing can be spread any more by this process: it must end and be started again."""


class Spread(Protocol):
    """Runs a task for each number from 0 to `parts` - 1, somewhere; Spark's executors in production."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        ...

    def map(self, task: Callable[[int], T], parts: int) -> list[T]:
        """Results in the order of the numbers. An exception of a task is raised here.

        A task may run twice when its process was lost: it must be idempotent.
        """
        ...

    def check(self) -> None:
        """Raises `SpreadLost` once nothing can be spread any more. Asked at every turn: cheap."""
        ...


class InThreads:
    """Threads of this process: for tests, and where no Spark is wanted."""

    def __init__(self, parallelism: int = 2):
        self.parallelism = parallelism

    def map(self, task: Callable[[int], T], parts: int) -> list[T]:
        with ThreadPoolExecutor(self.parallelism) as pool:
            return list(pool.map(task, range(parts)))

    def check(self) -> None:
        """Threads are never lost."""
