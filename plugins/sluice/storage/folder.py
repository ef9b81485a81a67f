"""A folder of carried files, in a directory or in S3: one protocol (`sluice.storage.opening` chooses).

Whatever is written appears whole or not at all, and never in place of something else. Nothing but plain files with
names of `sluice.model.location` is ever read, written or removed.
"""

from collections.abc import Iterator
from typing import Protocol

from sluice.errors import Terminal, Transient
from sluice.model.location import Location


class LocationUnusable(Terminal):
    """Files cannot be kept at `location`."""

    def __init__(self, location: Location, reason: str):
        super().__init__(f"{location}: {reason}")
        self.location = location
        self.reason = reason


class LocationFull(Terminal):
    """No room is left."""

    def __init__(self, location: Location, reason: str):
        super().__init__(
            f"{location} is full ({reason}). What was written so far is whole, and its folder says that it is "
            "incomplete. Make room and start a new initial update, or choose another location; remove the folder."
        )
        self.location = location


class LocationUnreachable(Transient):
    """The place does not answer just now."""

    def __init__(self, location: Location, reason: str):
        super().__init__(f"{location} cannot be reached: {reason}")
        self.location = location


class FileThere(Terminal):
    """A file of that name exists already, which must never be replaced."""

    def __init__(self, location: Location):
        super().__init__(f"{location} exists already and is not replaced.")
        self.location = location


class FileGone(Terminal):
    """A file is not there, or is no plain file."""

    def __init__(self, location: Location, reason: str = "is missing"):
        super().__init__(f"{location} {reason}.")
        self.location = location
        self.reason = reason


class Sink(Protocol):
    """A file that is being written; it appears when `close` returns, and never after `abandon`."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class Folder(Protocol):
    """The folder of one initial update."""

    location: Location

    def sizes(self) -> dict[str, int]:
        """Name → bytes of each plain file; what else lies there is left out. Raises `FileGone` without a folder."""

    def create(self, name: str) -> Sink:
        """A new file. Raises `FileThere`, at the latest when the sink is closed."""

    def read(self, name: str) -> Iterator[bytes]:
        """The content in pieces. Raises `FileGone`, also for links."""

    def remove(self, name: str) -> None:
        """Nothing when it is not there."""

    def clear(self) -> None:
        """Removes the files that Sluice made, what says whose the folder is last; then the folder, if it is empty."""


class Place(Protocol):
    """A location: folders of initial updates lie in it."""

    location: Location

    def probe(self) -> None:
        """Writes something and takes it away again. Raises `LocationUnusable`, `LocationFull`."""

    def folders(self) -> list[str]:
        """The names of the folders in it, sorted."""

    def create(self, name: str, first: str, content: bytes) -> Folder | None:
        """A new folder that has the file `first`; None when the name is taken."""
