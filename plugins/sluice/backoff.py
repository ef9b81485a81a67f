"""The pauses between tries of what fails for a while."""


class Backoff:
    """Each pause is twice as long as the one before, from `first` up to `longest` seconds, until a try succeeds."""

    def __init__(self, first: float = 0.25, longest: float = 15.0):
        self._first, self._longest, self._last = first, longest, 0.0

    def reset(self) -> None:
        """A try has succeeded."""
        self._last = 0.0

    def next(self) -> float:
        """The pause before the next try, in seconds."""
        self._last = min(max(2 * self._last, self._first), self._longest)
        return self._last
