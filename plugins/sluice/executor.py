"""Many processes that read and stage a large window, load blocks or compare tables: Spark's executors."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol, TypeVar

from sluice.errors import Transient

T = TypeVar("T")


class ExecutorsFailed(Transient):
    """A task died with its process, again and again, or Spark does not answer. What was begun is taken anew."""


class ExecutorStuck(ExecutorsFailed):
    """No end within the limit: a process may be frozen, or nobody there to do the work."""


HEARTBEAT_SECONDS = 0.1
"""Between two looks at whether waiting still makes sense."""


def run_with_heartbeat(work: Callable[[], T], heartbeat: Callable[[], None], limit: float) -> T:
    """What `work` returns or raises. It runs in a thread; what `heartbeat` raises meanwhile ends the waiting for it.

    `limit` in seconds. Raises `ExecutorStuck` beyond it.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    # A daemon: what nobody waits for any more must not keep the process from ending.
    threading.Thread(target=run, name="spread", daemon=True).start()
    end = time.monotonic() + limit
    while True:
        with suppress(TimeoutError):
            return future.result(HEARTBEAT_SECONDS)
        if future.done():
            return future.result()
        heartbeat()
        if time.monotonic() > end:
            raise ExecutorStuck(
                f"Spark has not come to an end with what it was given within {limit:.0f} s. It is cancelled and "
                "taken again. If this goes on, look whether Spark has workers (page of its master), and whether they "
                "reach both databases."
            )


class Executor(Protocol):
    """Runs a task for each number from 0 to `parts` - 1, somewhere; Spark's executors in production."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        ...

    @property
    def ready(self) -> bool:
        """Whether work that is given now begins at once."""
        ...

    @property
    def pages(self) -> str:
        """Where people see what it does; empty where that is not known."""
        ...

    @property
    def progress(self) -> str:
        """How much of the work under way is done, `3 of 8 tasks`; empty where that is not known."""
        ...

    @property
    def stopped(self) -> Callable[[], bool]:
        """Says whether what runs now was cancelled. It travels with a task that asks, to wherever it runs."""
        ...

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        """Results in the order of the numbers. An exception of a task is raised here. `what`: shown to people.

        A task may run twice when its process was lost: it must be idempotent.
        """
        ...

    def cancel(self) -> None:
        """What `map` waits for is not needed any more; never raises."""
        ...

    def check(self) -> None:
        """Raises a `Terminal` where there will be no executors until a person does something. Cheap."""
        ...

    def stop(self) -> None:
        """Ends whatever was started for it; never raises."""
        ...


class ThreadExecutor:
    """Threads of this process, for tests of what does not depend on where tasks run."""

    ready = True
    pages = ""
    progress = ""

    def __init__(self, parallelism: int = 2):
        self.parallelism = parallelism
        self._cancelled = threading.Event()

    @property
    def stopped(self) -> Callable[[], bool]:
        return self._cancelled.is_set

    def map(self, task: Callable[[int], T], parts: int, what: str = "") -> list[T]:
        if parts == 1:
            # No thread of a pool: the process must not wait for one that hangs in a call when it ends.
            return [task(0)]
        with ThreadPoolExecutor(self.parallelism) as pool:
            return list(pool.map(task, range(parts)))

    def cancel(self) -> None:
        """Threads come to their own end, at once where their task asks `stopped`. What starts later is not meant."""
        self._cancelled.set()
        self._cancelled = threading.Event()

    def check(self) -> None:
        """There are always threads."""

    def stop(self) -> None:
        """Nothing was started."""
