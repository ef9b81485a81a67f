"""What happened during a demo, in the order it happened: shown in the view, printed where there is none."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """One line; `at` in seconds since the demo began; `kind` is info, good, bad or kill."""

    at: float
    text: str
    kind: str = "info"


class Events:
    """A list that threads add to. `listener` sees each event at once."""

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
        """The last ones, oldest first."""
        with self._lock:
            return list(self._recent)[-count:]
