"""Positions in a recorded stream: the number of the last change of a transaction."""

import json
from dataclasses import dataclass, field

from sluice.model.position import Position, other_source


@dataclass(frozen=True)
class StreamPosition:
    """All changes up to the number `commit`, with which a transaction ends."""

    stream: str
    """The name of the stream."""
    commit: int
    time: str = field(default="", compare=False)
    """The time of the commit, ISO 8601, UTC; empty at the beginning of a stream."""

    @property
    def high(self) -> int:
        """The same number: changes are numbered in the order of their commits."""
        return self.commit

    keys_a_change = 1

    def covers(self, transaction: int, repl_key: int = 0) -> bool:
        """`transaction`: the number of its first change. `repl_key` is not used."""
        return transaction <= self.commit

    def resting(self, since: Position) -> "StreamPosition":
        return self

    @property
    def restart(self) -> "StreamPosition":
        return self

    def covers_all_of(self, other: Position) -> bool:
        """Whether it covers everything that `other` covers. Raises `other-source`."""
        return self._other(other).commit <= self.commit

    def floor(self, target: Position) -> int:
        """A number below those of the changes in the window to `target`. Raises `other-source`."""
        self._other(target)
        return self.commit

    def text(self) -> str:
        """The text for storage."""
        values = {"vendor": "stream", "stream": self.stream, "commit": self.commit, "time": self.time}
        return json.dumps(values, separators=(",", ":"))

    def __str__(self) -> str:
        return f"change {self.commit} of the stream {self.stream}"

    def _other(self, other: Position) -> "StreamPosition":
        position = StreamPosition.of(other)
        if position.stream != self.stream:
            raise other_source(other, f"the stream {self.stream}")
        return position

    @classmethod
    def of(cls, position: Position) -> "StreamPosition":
        """The position itself. Raises `other-source` if it is not one of a recorded stream."""
        if not isinstance(position, cls):
            raise other_source(position, "a recorded stream")
        return position

    @classmethod
    def parse(cls, text: str) -> "StreamPosition":
        """Raises `ValueError` for text that `text()` did not write."""
        values = json.loads(text)
        try:
            stream, commit, time = values["stream"], values["commit"], values["time"]
        except KeyError as lacking:
            raise ValueError(f"{text!r} is no position of a stream: it lacks {lacking}") from None
        if not isinstance(stream, str) or not isinstance(commit, int) or commit < 0:
            raise ValueError(f"{text!r} is no position of a stream")
        return cls(stream, commit, str(time))
