"""The queue of a master whose triggers write to ITEMS, and what it keeps in INFO: the last purge, and how far slaves
and feeds are."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from sluice.database import registry
from sluice.database.errors import LockNotAvailable
from sluice.database.session import Session
from sluice.model.feed import FeedPosition
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.purging import SlaveNote

_PURGED, _SLAVES, _FEED = "purged", "slaves", "feed "
"""Names in INFO. A feed's position has the name `feed `, the feed, which contains no blank, a blank, and the table."""


class Info(Protocol):
    """Named texts in the table INFO of a prefix."""

    def value(self, name: str) -> str | None: ...

    def all(self, beginning: str = "") -> Sequence[tuple[str, str]]:
        """Name and value of each whose name has this beginning, by name."""
        ...

    def write(self, name: str, value: str) -> bool:
        """Returns whether the value was another one."""
        ...

    def remove(self, name: str) -> bool:
        """Returns whether there was a value."""
        ...


class ItemsQueue(ABC):
    """Of `sluice.database.changes.ChangeQueue` what vendors share."""

    session: Session

    @property
    @abstractmethod
    def info(self) -> Info: ...

    @abstractmethod
    def take(self, previous: Position | None = None) -> Position: ...

    @abstractmethod
    def check_definitions(self) -> list[TableName]: ...

    def beginning(self, after: int | None) -> Position | None:
        """None: only an initial update brings rows that are older than the capture."""
        return None

    def window_end(self, previous: Position, changes: int) -> Position:
        """The master's present position, for any number of `changes`: ITEMS does not record states in between."""
        return self.take(previous)

    def compare_definitions(self) -> list[TableName]:
        """As `check_definitions`, but returns none where writers or DDL hold the locks that it needs."""
        try:
            return self.check_definitions()
        except LockNotAvailable:
            return []

    def purged(self) -> list[Position]:
        """The positions of the last purge, which deleted what all of them cover; empty without any purge.

        A slave that covers one of them has lost nothing. One that does not was restored from a backup or a standby, and
        changes that it needs are deleted.
        """
        return parsed(self.info.value(_PURGED))

    def note_purged(self, seen: Iterable[Position]) -> None:
        self.info.write(_PURGED, json.dumps([position.text() for position in seen]))

    def noted(self) -> dict[str, SlaveNote]:
        """The last purge's notes about the slaves."""
        return {
            name: SlaveNote(registry.parse_position(note["position"]) if note["position"] else None, note["dropped"])
            for name, note in json.loads(self.info.value(_SLAVES) or "{}").items()
        }

    def note(self, slaves: Mapping[str, SlaveNote]) -> None:
        """Stores notes about the slaves for the next purge."""
        notes = {
            name: {"position": one.position.text() if one.position else None, "dropped": one.dropped}
            for name, one in slaves.items()
        }
        self.info.write(_SLAVES, json.dumps(notes))

    def feeds(self) -> list[FeedPosition]:
        """The position that each feed has read each table up to."""
        entries = [(name.removeprefix(_FEED).partition(" "), value) for name, value in self.info.all(_FEED)]
        return [FeedPosition(feed, table, registry.parse_position(value)) for (feed, _, table), value in entries]

    def note_feed(self, read: FeedPosition) -> None:
        """Stores the position that a feed has read a table up to."""
        self.info.write(f"{_FEED}{read.feed} {read.table}", read.position.text())

    def drop_feed(self, feed: str) -> int:
        """Deletes a feed's positions. Returns of how many tables."""
        with self.session.transaction():
            return sum(self.info.remove(name) for name, _ in self.info.all(f"{_FEED}{feed} "))


def parsed(record: str | None) -> list[Position]:
    """The positions in the record of the last purge."""
    return [registry.parse_position(text) for text in json.loads(record or "[]")]
