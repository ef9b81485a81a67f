"""The number of examples of a property-based test."""

from hypothesis import settings


def examples(number: int) -> int:
    """The share of `number` that the profile of the run takes: all, or a third (`tests/conftest.py`)."""
    return max(1, number * settings().max_examples // 100)
