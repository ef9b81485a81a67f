"""The folder of an initial update by files: creates, fills, closes and reads it.

A file is rows (CSV, compressed with gzip) or a message (text), encrypted where there is a key. Its size and SHA-256 are
those of the stored bytes, so that `sha256sum` finds a damaged file without any key.
"""

import hashlib
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sluice.counted import counted
from sluice.database import registry
from sluice.errors import Terminal
from sluice.load.transfer import encryption
from sluice.model.location import (
    END_PRIORITY,
    INCOMPLETE,
    MANIFEST_PRIORITY,
    Location,
    S3Access,
    file_name,
    folder_name,
    is_file_name,
)
from sluice.model.manifest import File, Manifest, ManifestDamaged
from sluice.storage.folder import FileGone, Folder
from sluice.storage.opening import open_folder, open_location

LEVEL = 3
"""The gzip level: as fast as COPY; higher levels take much time for little."""
GZIP = 31
"""zlib's parameter for a gzip header and trailer with the largest window."""
INFLATED_BYTES = 256 * 1024
"""How much of a compressed piece is expanded into memory at a time."""
MESSAGE_BYTES = 512 * 1024 * 1024
"""The largest message; the manifest of a hundred thousand blocks has a tenth of that."""


class FileDamaged(Terminal):
    """A file is not what the manifest says."""

    def __init__(self, location: Location, reason: str):
        super().__init__(f"{location} {reason}. Copy it again from where the folder was made.")
        self.reason = reason


class NotComplete(Terminal):
    """A folder has no manifest."""

    def __init__(self, location: Location, reason: str):
        super().__init__(f"{location} {reason}.")


@dataclass(frozen=True)
class TransferFolder:
    """A folder, with its access and key. It is sent to Spark's executors, secrets included."""

    location: Location
    access: S3Access = field(default_factory=S3Access)
    key: bytes | None = field(default=None, repr=False)
    """None: files are not encrypted."""

    @property
    def folder(self) -> Folder:
        return open_folder(self.location, self.access)

    def write(self, name: str, pieces: Iterable[bytes | memoryview], *, compressed: bool = True) -> File:
        """Writes a file completely or not at all. Raises the errors of `pieces` and of the folder."""
        data: Iterator[bytes] = _deflated(pieces) if compressed else (bytes(piece) for piece in pieces)
        if self.key is not None:
            data = encryption.encrypted(data, self.key, name)
        digest, size = hashlib.sha256(), 0
        sink = self.folder.create(name)
        try:
            for piece in data:
                digest.update(piece)
                size += len(piece)
                sink.write(piece)
            sink.close()
        except BaseException:
            sink.abandon()
            raise
        return File(name, size, digest.hexdigest())

    def read(self, file: File) -> Iterator[bytes]:
        """The rows of a file. Raises `FileGone`, and `FileDamaged`, at the latest after the last piece."""
        location = self.location.below(file.name)
        whole = _Checked(self.folder.read(file.name), file, location)
        try:
            yield from _inflated(self._opened(whole, file.name))
        except (zlib.error, encryption.DecryptionFailed) as error:
            reason = str(error) if isinstance(error, encryption.DecryptionFailed) else "is damaged"
            raise FileDamaged(location, reason) from error

    def fault(self, file: File, size: int | None) -> str | None:
        """The fault of a stored file, or None; `size`: in the folder's listing, None if it is not listed."""
        if size is None:
            try:
                next(iter(self.folder.read(file.name)), b"")
            except FileGone as gone:
                return gone.reason
        if size != file.size:
            return f"has {size:,} bytes instead of {file.size:,}" if size is not None else "is no plain file"
        try:
            for _ in _Checked(self.folder.read(file.name), file, self.location.below(file.name)):
                pass
        except (FileDamaged, FileGone) as error:
            return error.reason
        return None

    def manifest(self) -> Manifest:
        """Raises `NotComplete`, `ManifestDamaged`, errors of the folder."""
        try:
            sizes = self.folder.sizes()
        except FileGone as gone:
            raise NotComplete(self.location, gone.reason) from None
        names = [name for name in sizes if is_file_name(name, MANIFEST_PRIORITY)]
        if len(names) != 1:
            reason = "has no manifest, the last of its files: it is incomplete" if not names else "has two manifests"
            raise NotComplete(self.location, reason)
        if sizes[names[0]] > MESSAGE_BYTES:
            raise ManifestDamaged(str(self.location), "it is far too large")
        manifest = Manifest.parse(self._text(names[0]), str(self.location.below(names[0])), registry.parse_position)
        if manifest.folder != self.location.name:
            raise ManifestDamaged(
                str(self.location), f"it is of folder {manifest.folder}; give the folder that name again"
            )
        return manifest

    def finish(self, manifest: Manifest) -> File:
        """Writes the manifest and removes INCOMPLETE: the folder may be carried."""
        name = file_name(MANIFEST_PRIORITY, time.time_ns())
        written = self.write(name, [manifest.text().encode()], compressed=False)
        self.folder.remove(INCOMPLETE)
        return written

    def end_message(self, count: int, rows: int) -> File:
        """Writes the first end-of-update message: all blocks were written."""
        text = f"End of the initial data: {counted(count, 'file')}, {counted(rows, 'row')}. The manifest follows.\n"
        return self.write(file_name(END_PRIORITY, time.time_ns()), [text.encode()], compressed=False)

    def _text(self, name: str) -> str:
        location = str(self.location.below(name))
        try:
            return b"".join(self._opened(self.folder.read(name), name)).decode()
        except encryption.DecryptionFailed as broken:
            raise ManifestDamaged(location, f"it {broken}") from None
        except UnicodeDecodeError:
            raise ManifestDamaged(location, "it is altered") from None

    def _opened(self, pieces: Iterable[bytes], name: str) -> Iterator[bytes]:
        """The content, decrypted if there is a key. Raises `DecryptionFailed`."""
        if self.key is not None:
            yield from encryption.decrypted(pieces, self.key, name)
            return
        first = True
        for piece in pieces:
            if first and piece.startswith(encryption.MAGIC):
                raise encryption.DecryptionFailed("is encrypted, and no key was given")
            first = False
            yield piece


def new_folder(location: Location, access: S3Access, key: bytes | None, owner: str) -> TransferFolder:
    """The folder of the update that `owner` names, or a new one. Its name is a unique timestamp.

    A folder has the file INCOMPLETE until its manifest is written. Raises errors of the location.
    """
    storage = open_location(location, access)
    note = f"{owner}\nIncomplete: this initial update is still being exported, or its export has failed.\n"
    for name in reversed(storage.folders()):
        transfer_folder = TransferFolder(location.below(name), access, key)
        try:
            if b"".join(transfer_folder.folder.read(INCOMPLETE)).decode(errors="replace") == note:
                return transfer_folder
        except FileGone:
            continue
    while True:
        name = folder_name(time.time_ns())
        if storage.create(name, INCOMPLETE, note.encode()) is not None:
            return TransferFolder(location.below(name), access, key)
        time.sleep(0.000_01)


def owner_of_note(note: bytes) -> tuple[str, str] | None:
    """Prefix and initial update that INCOMPLETE names; None if it names none."""
    words = note.decode(errors="replace").split("\n", 1)[0].split(" ", 2)
    return (words[0], words[2]) if len(words) == 3 else None


class _Checked:
    """Passes a file's bytes on, and checks their number and SHA-256. Raises `FileDamaged`."""

    def __init__(self, pieces: Iterator[bytes], file: File, location: Location):
        self._pieces = pieces
        self._file = file
        self._location = location
        self._digest = hashlib.sha256()
        self._size = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._digest.update(piece)
            self._size += len(piece)
            if self._size > self._file.size:
                break
            yield piece
        if self._size != self._file.size:
            more = "more" if self._size > self._file.size else "fewer"
            raise FileDamaged(self._location, f"has {more} than its {self._file.size:,} bytes")
        if self._digest.hexdigest() != self._file.sha256:
            raise FileDamaged(self._location, "is altered: its SHA-256 is another one")


def _deflated(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
    for piece in pieces:
        if data := compressor.compress(piece):
            yield data
    yield compressor.flush()


def _inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Raises `zlib.error` if the pieces are not exactly one gzip member."""
    inflater = zlib.decompressobj(GZIP)
    for piece in pieces:
        if inflater.eof:
            raise zlib.error("something follows the end")
        data = inflater.decompress(piece, INFLATED_BYTES)
        while data or inflater.unconsumed_tail:
            if data:
                yield data
            data = inflater.decompress(inflater.unconsumed_tail, INFLATED_BYTES)
    if data := inflater.flush():
        yield data
    if not inflater.eof or inflater.unused_data:
        raise zlib.error("it is cut off, or something follows its end")
