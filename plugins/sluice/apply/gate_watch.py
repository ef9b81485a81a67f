"""When an apply looks at its gate: before anything is applied always, and now and then while nothing is."""

import time

from sluice.coordination.gate import Closure, Gate

REST_SECONDS = 0.25
"""Between two looks while nothing is to be applied: each of them costs Redis and this process 0.1 ms."""


class GateWatch:
    """Of one apply, in its thread. Each turn asks `closures`, then `is_open`, and says `rest` where it did nothing."""

    def __init__(self, gate: Gate):
        self.gate = gate
        self._looked_at = float("-inf")
        self._looked = False
        """Whether this turn has looked."""
        self._resting = False

    def closures(self) -> list[Closure]:
        """Why the gate is closed, as far as a turn must know by now. Raises `StoreUnreachable`."""
        now = time.monotonic()
        self._looked = not self._resting or now >= self._looked_at + REST_SECONDS
        if not self._looked:
            return []
        self._looked_at = now
        found = self.gate.closures()
        self._resting = self._resting and not found
        return found

    def is_open(self, *, applies: bool) -> bool:
        """Whether this turn may go on. `applies`: it may write on the slave. Where not, the next turn tells why."""
        self._resting = False
        return self._looked or not applies or not self.gate.closures()

    def rest(self) -> None:
        """There was nothing to apply."""
        self._resting = True
