"""Loaders in threads, and loads in the background."""

import threading
from collections.abc import Callable

from sluice.load.load_job import LoadJob
from sluice.load.worker import LoadReport
from tests.waiting import DEADLINE_SECONDS

Worker = Callable[[str, Callable[[], bool]], LoadReport]
"""Takes a loader's name and whether it is to stop."""


def in_threads(
    job: LoadJob, worker: Worker, loaders: int = 2, watch: Callable[[], object] = lambda: None
) -> list[LoadReport]:
    """Runs the loaders of a job; returns their reports. Raises the first error of a loader, or that of `watch`, which
    is called regularly while they run."""
    reports: list[LoadReport] = []
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            reports.append(worker(job.loader(number), lambda: bool(failures)))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=[number]) for number in range(loaders)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        try:
            if not failures:
                watch()
        except BaseException as failure:
            failures.append(failure)
        for thread in threads:
            thread.join(0.1)
    if failures:
        raise failures[0]
    return reports


class Background(threading.Thread):
    """Runs a function in a thread; `failure` is its error."""

    def __init__(self, task: Callable[[], object]):
        super().__init__(daemon=True)
        self.task = task
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.task()
        except BaseException as failure:
            self.failure = failure

    def end(self, seconds: float = DEADLINE_SECONDS) -> BaseException | None:
        """Waits for its end; returns its error."""
        self.join(seconds)
        assert not self.is_alive(), f"it did not end within {seconds:g} s"
        return self.failure
