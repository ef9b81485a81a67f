"""How a table is compared."""

from collections.abc import Callable
from dataclasses import dataclass

from sluice.executor import Executor


@dataclass(frozen=True)
class CompareOptions:
    """`sessions`: how many on each side. `sample`: that many rows drawn at random instead of all; 0 for all."""

    actions: frozenset[str] = frozenset("IUD")
    """Which changes of the table are replicated: INSERT, UPDATE, DELETE."""
    sessions: int = 1
    sample: int = 0
    executors: Callable[[], Executor] | None = None
    """Connects to the executors that read large tables."""
