"""Which cases of a test are quick, and which are marked `long`."""

from collections.abc import Collection, Sequence

import pytest


def sample(names: Sequence[str], every: int, first: int = 0, *, always: Collection[str] = ()) -> list[object]:
    """All names as parameters; quick are one in so many, from `first` on, and those that `always` are."""
    return [
        pytest.param(name, marks=() if place % every == first or name in always else pytest.mark.long)
        for place, name in enumerate(names)
    ]
