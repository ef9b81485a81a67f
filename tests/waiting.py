"""Waiting for what must come true."""

import time
from collections.abc import Callable
from typing import TypeVar

from devstack.process import await_true

T = TypeVar("T")

DEADLINE_SECONDS = 600.0
"""How long tests wait for what must come true, in seconds. Only a hang takes that long, on the busiest machine."""


def until(condition: Callable[[], object], seconds: float = DEADLINE_SECONDS, pause: float = 0.05) -> None:
    """Returns once the condition holds; fails when it still does not after so many seconds."""
    assert await_true(lambda: bool(condition()), seconds, pause), f"this never came true within {seconds:g} s"


def awaited(condition: Callable[[], T], seconds: float = DEADLINE_SECONDS, pause: float = 0.02) -> T:
    """What the condition answers once that is true of it; fails when it still is not after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"this never came true within {seconds:g} s"
        time.sleep(pause)
    return found
