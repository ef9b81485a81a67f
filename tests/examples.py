"""How many examples a property is tried with."""

from hypothesis import settings


def examples(number: int) -> int:
    """Of so many the share that the profile of the run takes: all, or a third (`tests/conftest.py`)."""
    return max(1, number * settings().max_examples // 100)
