"""When definitions are compared before housekeeping does it, so that people hear within a minute what needs them."""

from dataclasses import dataclass, field

COMPARE_AND_TELL = "definitions are compared now, and people are told what needs them"
"""In the log of an apply that asks for it: the task that watches the apply's job acts on it."""
ASK_SECONDS = 30.0
"""Between two requests at least: a second change, just after the first, is still told within a minute."""


@dataclass
class ComparisonTrigger:
    """What was seen when the last request was made."""

    _seen: object = field(default=None, init=False)
    _triggered_at: float = field(default=float("-inf"), init=False)

    def asks(self, seen: object, clock: float) -> bool:
        """Whether to ask, now that this is seen. `clock`: seconds, never set back."""
        if seen == self._seen or clock - self._triggered_at < ASK_SECONDS:
            return False
        self._seen, self._triggered_at = seen, clock
        return True
