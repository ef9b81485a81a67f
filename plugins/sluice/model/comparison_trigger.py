"""Decides when an apply asks for a comparison of definitions, so that people are notified within a minute."""

from dataclasses import dataclass, field

COMPARE_AND_TELL = "definitions are compared now, and people are told what needs them"
"""The log line of an apply that asks for a comparison; the task that watches its job acts on it."""
ASK_SECONDS = 30.0
"""The shortest time between two requests: a second change, just after the first, is still reported within a minute."""


@dataclass
class ComparisonTrigger:
    """The observations at the last request."""

    _seen: object = field(default=None, init=False)
    _triggered_at: float = field(default=float("-inf"), init=False)

    def asks(self, seen: object, clock: float) -> bool:
        """Whether to ask for a comparison after this observation. `clock`: seconds, monotonic."""
        if seen == self._seen or clock - self._triggered_at < ASK_SECONDS:
            return False
        self._seen, self._triggered_at = seen, clock
        return True
