"""Carries strikes out, in the thread that owns the servers: each until it hits, and what it broke is fixed in time."""

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
TRY_SECONDS = 0.05
Fix = Callable[[], None]


def nothing() -> None:
    """Does nothing: there is nothing to repair."""


def never() -> bool:
    return False


@dataclass(frozen=True)
class Recovery:
    """A part that recovers by itself. `ended(seconds, back)` is called with the duration, or when it did not
    recover."""

    name: str
    is_back: Callable[[], bool]
    ended: Callable[[float, bool], None]
    began: float
    """The start, by `time.monotonic`."""
    until: float


class Striker:
    """`hits` counts the strikes that met something. `idle` is called every `pause` seconds between two of them.

    Servers end with the thread that starts them, so one thread strikes, waits and fixes.
    """

    def __init__(self, idle: Callable[[], None] = nothing, pause: float = 0.01) -> None:
        self.hits = 0
        self._idle, self._pause = idle, pause
        self._fixes: list[tuple[float, int, Fix]] = []
        self._order = itertools.count()
        self._recoveries: dict[str, Recovery] = {}

    @property
    def fixed(self) -> bool:
        """Whether nothing has to be fixed any more."""
        return not self._fixes

    def hit(self, attempt: Callable[[], T | None], seconds: float, over: Callable[[], bool] = never) -> T | None:
        """The answer of the first attempt that hits; None if none did for so long, or if it is `over`."""
        end = time.monotonic() + seconds
        while (fix := attempt()) is None:
            if over() or time.monotonic() >= end:
                return None
            self.wait(TRY_SECONDS)
        self.hits += 1
        return fix

    def later(self, seconds: float, fix: Fix) -> None:
        """Fixes after so many seconds."""
        heapq.heappush(self._fixes, (time.monotonic() + seconds, next(self._order), fix))

    def watch(
        self, name: str, is_back: Callable[[], bool], seconds: float, ended: Callable[[float, bool], None]
    ) -> None:
        """Looks whether something comes back by itself within so many seconds."""
        now = time.monotonic()
        self._recoveries[name] = Recovery(name, is_back, ended, now, now + seconds)

    def is_down(self, name: str) -> bool:
        """Whether something that is watched is not back yet."""
        return name in self._recoveries

    def wait(self, seconds: float, until: Callable[[], bool] = never) -> bool:
        """Whether the condition holds within so many seconds. What is due meanwhile is fixed."""
        end = time.monotonic() + seconds
        while not (happened := until()) and time.monotonic() < end:
            while self._fixes and self._fixes[0][0] <= time.monotonic():
                heapq.heappop(self._fixes)[2]()
            self._look()
            self._idle()
            time.sleep(self._pause)
        return happened

    def settle(self) -> None:
        """Waits until everything watched is back, or has had its time."""
        self.wait(float("inf"), lambda: not self._recoveries)

    def mend_all(self) -> None:
        """At once."""
        while self._fixes:
            heapq.heappop(self._fixes)[2]()

    def _look(self) -> None:
        now = time.monotonic()
        for recovery in list(self._recoveries.values()):
            back = recovery.is_back()
            if back or now > recovery.until:
                del self._recoveries[recovery.name]
                recovery.ended(now - recovery.began, back)
