"""Reduces the memory that Arrow uses in a process."""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


def keep_pages_for_a_while() -> None:
    """Arrow's default allocator returns memory at once; touching new pages took a fifth of a large window's time."""
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ and "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /) -> None:
        if name == "pandas":
            raise ImportError(name=name)


def do_without_pandas() -> None:
    """Arrow imports pandas, 28 MB, with the first value that it converts, unless it was not found then. A user exit
    makes Arrow search for it again (`sluice.transform.user_exit`)."""
    if "pandas" in sys.modules:
        return
    absent = _NoPandas()
    sys.meta_path.insert(0, absent)
    try:
        pa.scalar("")
    finally:
        sys.meta_path.remove(absent)
