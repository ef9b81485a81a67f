"""Waiting for what must come true."""

from collections.abc import Callable

from devstack.process import await_true


def until(condition: Callable[[], object], seconds: float = 120.0, pause: float = 0.05) -> None:
    """Returns once the condition holds; fails when it still does not after so many seconds."""
    assert await_true(lambda: bool(condition()), seconds, pause), f"this never came true within {seconds:g} s"
