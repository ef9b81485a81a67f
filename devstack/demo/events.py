"""The events of a demo in their order. The live view shows them; without it they are printed."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """One line. `at`: seconds since the demo began; `kind`: info, good, bad or kill."""

    at: float
    text: str
    kind: str = "info"


class Events:
    """A list that threads add to. It calls `listener` with each event."""

    def __init__(self, listener: Callable[[Event], None] | None = None) -> None:
        self.began = time.monotonic()
        self._listener = listener
        self._lock = threading.Lock()
        self._recent: deque[Event] = deque(maxlen=200)

    def say(self, text: str, kind: str = "info") -> None:
        event = Event(time.monotonic() - self.began, text, kind)
        with self._lock:
            self._recent.append(event)
        if self._listener:
            self._listener(event)

    def recent(self, count: int) -> list[Event]:
        """Returns the last events, oldest first."""
        with self._lock:
            return list(self._recent)[-count:]
