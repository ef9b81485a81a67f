"""How long an apply waits before it asks the master again, where there was nothing to apply."""

SHORTEST_SECONDS = 0.01


class Pace:
    """Of one apply, in its thread. What follows a window is expected soon, what follows a rest is not.

    So the first pause after a window is as long as the window took, and each further one twice as long, up to
    `longest` seconds. An apply under light traffic is busy for half of its time at most.
    """

    def __init__(self, longest: float):
        self._longest = longest
        self._next = longest

    def applied(self, seconds: float) -> None:
        """Notes that a window took so many seconds."""
        self._next = min(max(seconds, SHORTEST_SECONDS), self._longest)

    def pause(self) -> float:
        """Seconds to wait now."""
        seconds = self._next
        self._next = min(2 * seconds, self._longest)
        return seconds
