"""The protocol of folders of carried files, in a directory or in S3 (`sluice.storage.opening` chooses).

A file is written completely or not at all, and never replaces another one. Only plain files with names of
`sluice.model.location` are read, written or removed.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from sluice.errors import Terminal, Transient
from sluice.model.location import INCOMPLETE, Location, is_file_name


class LocationUnusable(Terminal):
    """Files cannot be stored at `location`."""

    def __init__(self, location: Location, reason: str):
        super().__init__(f"{location}: {reason}")


def location_full(location: Location, reason: str) -> Terminal:
    """No space is left."""
    return Terminal(
        f"{location} is full ({reason}). What was written so far is whole, and its folder says that it is "
        "incomplete. Make room and start a new initial update, or choose another location; remove the folder.",
        code="location-full",
    )


class LocationUnreachable(Transient):
    """The location does not answer at the moment."""

    def __init__(self, location: Location, reason: str):
        super().__init__(f"{location} cannot be reached: {reason}")
        self.location, self.reason = location, reason


class FileThere(Terminal):
    """A file of that name exists and must not be replaced."""

    def __init__(self, location: Location):
        super().__init__(f"{location} exists already and is not replaced.")


class FileGone(Terminal):
    """A file is missing, or is no plain file."""

    def __init__(self, location: Location, reason: str = "is missing"):
        super().__init__(f"{location} {reason}.")
        self.reason = reason


def digest_of(files: Iterable[tuple[object, ...]]) -> str:
    """A digest of what a listing says of its files; empty if it has none."""
    digest, files = hashlib.sha256(), list(files)
    for file in files:
        digest.update(f"{file!r}\n".encode())
    return digest.hexdigest() if files else ""


def known(name: str) -> bool:
    """Whether Sluice writes files of that name."""
    return name == INCOMPLETE or is_file_name(name)


class Sink(Protocol):
    """A file that is being written. It exists once `close` returns, and never after `abandon`."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class Folder(Protocol):
    """The folder of one initial update."""

    location: Location

    def sizes(self) -> dict[str, int]:
        """Sizes of the plain files by name. Raises `FileGone` if there is no folder."""

    def fingerprint(self) -> str:
        """A digest of names, sizes and times of the plain files: another one after every change. Empty if there is no
        folder."""

    def create(self, name: str) -> Sink:
        """A new file. Raises `FileThere`, at the latest when the sink is closed."""

    def read(self, name: str) -> Iterator[bytes]:
        """The content in pieces. Raises `FileGone`, also for links."""

    def remove(self, name: str) -> None:
        """Removes a file if it exists."""

    def clear(self) -> None:
        """Removes the files that Sluice wrote, those that name the folder's owner last; then the folder, if empty."""


class Storage(Protocol):
    """A location with folders of initial updates."""

    location: Location

    def probe(self) -> None:
        """Writes and removes a file. Raises `LocationUnusable`, `location-full`."""

    def folders(self) -> list[str]:
        """Names of the folders, sorted."""

    def create(self, name: str, first: str, content: bytes) -> Folder | None:
        """A new folder with the file `first`; None if the name is taken."""
