"""What a bench does at the moment, on standard error: a line a step, and one from time to time during a long step."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from benchmarks import progress
from benchmarks.report import Run

QUIET_SECONDS = 15.0
"""Without a line for that long, the step is named again."""


class Progress:
    """The lines of one bench. Steps may come from any thread."""

    def __init__(self, name: str, quiet_seconds: float = QUIET_SECONDS) -> None:
        self._name, self._quiet = name, quiet_seconds
        self._began = self._last = time.monotonic()
        self._step = "starts"
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def say(self, step: str) -> None:
        """Prints what is done from now on."""
        with self._lock:
            self._step = step
            self._print(step)

    def _print(self, text: str) -> None:
        self._last = time.monotonic()
        print(f"[{self._last - self._began:6.1f} s] {self._name}: {text}", file=sys.stderr, flush=True)

    def _tick(self) -> None:
        while not self._ended.wait(self._quiet / 5):
            with self._lock:
                if time.monotonic() - self._last >= self._quiet:
                    self._print(f"still: {self._step}")

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Prints lines until the end of the block."""
        self.say(self._step)
        ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
        ticker.start()
        try:
            yield
        finally:
            self._ended.set()
            ticker.join()


_current = Progress("bench")


def say(step: str) -> None:
    """Prints a step of the bench that runs."""
    _current.say(step)


@contextmanager
def of(name: str) -> Iterator[None]:
    """The progress of the bench of that name."""
    global _current
    _current = Progress(name)
    with _current.shown():
        yield


# Both sides in turn: what a machine does meanwhile, and how warm it is, meets both alike.

Measure = Callable[[], Run]


def alternate(name: str, sides: Mapping[str, Measure], rounds: int, warm_up: int) -> dict[str, list[Run]]:
    """`rounds` runs of each side, after `warm_up` that do not count; the side that goes first changes each time."""
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    for number in range(-warm_up, rounds):
        order = list(sides.items())
        for side, measure in order if number % 2 == 0 else reversed(order):
            kind = "warm-up" if number < 0 else f"run {number + 1} of {rounds}"
            progress.say(f"{name}, {kind}, {side}")
            run = measure()
            progress.say(f"{name}, {kind}, {side}: {run.value:,.4g} in {run.seconds:.3f} s")
            if number >= 0:
                runs[side].append(run)
    return runs
