"""Parts and functions that a vendor does not have."""

from collections.abc import Callable
from typing import Never

from sluice.errors import Terminal


class Absent:
    """Stands for a part, or a function of a part, that a vendor does not have: any use of it raises."""

    def __init__(self, error: Callable[[], Terminal]):
        self._error = error

    def __get__(self, vendor: object, kind: type | None = None) -> Never:
        raise self._error()

    def __call__(self, *_: object, **__: object) -> Never:
        raise self._error()
