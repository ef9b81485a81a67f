"""The protocol of executors, Spark's in production: they stage large windows, load blocks, and compare tables."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol, TypeVar

from sluice.errors import Transient

T = TypeVar("T")


class ExecutorsFailed(Transient):
    """A task lost its process several times, or Spark does not answer. The work begins again."""


class ExecutorStuck(ExecutorsFailed):
    """The work did not end within the limit: a process may be frozen, or there are no executors."""


HEARTBEAT_SECONDS = 0.1
"""Between two calls of the heartbeat."""


def run_with_heartbeat(work: Callable[[], T], heartbeat: Callable[[], None], limit: float) -> T:
    """Runs `work` in a thread; returns or raises what it does. An exception of `heartbeat` meanwhile ends the wait.

    `limit`: seconds, after which it raises `ExecutorStuck`.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    # A daemon thread: abandoned work must not keep the process from ending.
    threading.Thread(target=run, name="executor", daemon=True).start()
    end = time.monotonic() + limit
    while True:
        with suppress(TimeoutError):
            return future.result(HEARTBEAT_SECONDS)
        if future.done():
            return future.result()
        heartbeat()
        if time.monotonic() > end:
            raise ExecutorStuck(
                f"Spark has not finished its work within {limit:.0f} s. The work is canceled and started again. If "
                "this continues, look whether Spark has workers (page of its master), and whether they reach both "
                "databases."
            )


class Executor(Protocol):
    """Runs a task for each number from 0 to `parts` - 1."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        ...

    @property
    def ready(self) -> bool:
        """Whether new work begins at once. The caller has such work: executors are started for it if there are none."""
        ...

    @property
    def pages(self) -> str:
        """The address of pages about it; empty if unknown."""
        ...

    @property
    def progress(self) -> str:
        """Progress of the current work, `3 of 8 tasks`; empty if unknown."""
        ...

    @property
    def waits(self) -> str:
        """Why current work has not begun for some seconds; empty if it has."""
        ...

    @property
    def stopped(self) -> Callable[[], bool]:
        """A function that tells whether the current work was canceled. It can be sent along with a task."""
        ...

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        """Results in the order of the numbers. Raises the exception of a task. `what`: a name to show.

        A task may run twice if its process was lost: it must be idempotent.
        """
        ...

    def cancel(self) -> None:
        """Cancels the current `map`; never raises."""
        ...

    def check(self) -> None:
        """Raises a `Terminal` if there will be no executors until a person acts. Cheap."""
        ...

    def stop(self) -> None:
        """Ends everything that was started for it; never raises."""
        ...


def never() -> bool:
    """For `Executor.stopped`: canceled work ends with its process. Executors have the library, and no other module of
    the driver's."""
    return False


class ThreadExecutor:
    """Threads of this process, for tests that do not depend on where tasks run."""

    ready = True
    pages = ""
    progress = ""
    waits = ""

    def __init__(self, parallelism: int = 2):
        self.parallelism = parallelism
        self._cancelled = threading.Event()

    @property
    def stopped(self) -> Callable[[], bool]:
        return self._cancelled.is_set

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        if parts == 1:
            # Without a pool, whose hanging thread would keep the process from ending.
            return [task(0)]
        with ThreadPoolExecutor(self.parallelism) as pool:
            return list(pool.map(task, range(parts)))

    def cancel(self) -> None:
        """Threads end on their own, at once if their task checks `stopped`. Later work is not canceled."""
        self._cancelled.set()
        self._cancelled = threading.Event()

    def check(self) -> None:
        """There are always threads."""

    def stop(self) -> None:
        """Nothing was started."""
