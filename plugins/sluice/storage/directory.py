"""Carried files in a local or mounted directory."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sluice import whole_files
from sluice.model.location import Location, is_folder_name
from sluice.storage.folder import (
    FileGone,
    FileThere,
    LocationUnreachable,
    LocationUnusable,
    digest_of,
    known,
    location_full,
)

PIECE_BYTES = 256 * 1024
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_WAITS = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.ENOTCONN}
"""Errors of a network file system while its server is down."""


class DirectoryStorage:
    """See `Storage`."""

    def __init__(self, location: Location):
        self.location = location
        self._path = Path(location.path)

    def probe(self) -> None:
        with _classified(self.location):
            if not self._path.is_dir():
                raise LocationUnusable(
                    self.location,
                    "is no directory on this machine. Create it, or mount it; it must be the same one on every "
                    "machine that runs Spark's executors",
                )
            # Write as much as a small file has: an empty file fits on a full disk.
            with tempfile.TemporaryFile(dir=self._path) as file:
                file.write(b"\0" * PIECE_BYTES)
                file.flush()
                os.fsync(file.fileno())

    def folders(self) -> list[str]:
        with _classified(self.location):
            if not self._path.is_dir():
                raise LocationUnusable(self.location, "is no directory on this machine")
            return sorted(
                entry.name
                for entry in os.scandir(self._path)
                if is_folder_name(entry.name) and entry.is_dir(follow_symlinks=False)
            )

    def create(self, name: str, first: str, content: bytes) -> "DirectoryFolder | None":
        folder = DirectoryFolder(self.location.below(name))
        with _classified(self.location):
            try:
                os.mkdir(folder.path, 0o700)
            except FileExistsError:
                return None
            try:
                sink = folder.create(first)
                sink.write(content)
                sink.close()
            except BaseException:
                with suppress(OSError):
                    os.rmdir(folder.path)
                raise
        return folder


class DirectoryFolder:
    """See `Folder`. Unfinished files have a name with a leading dot."""

    def __init__(self, location: Location):
        self.location = location
        self.path = Path(location.path)

    def sizes(self) -> dict[str, int]:
        with _classified(self.location):
            if self.path.is_symlink() or not self.path.is_dir():
                raise FileGone(self.location, "is not there, or is no directory")
            return {
                entry.name: entry.stat(follow_symlinks=False).st_size
                for entry in os.scandir(self.path)
                if known(entry.name) and entry.is_file(follow_symlinks=False)
            }

    def fingerprint(self) -> str:
        with _classified(self.location):
            if self.path.is_symlink() or not self.path.is_dir():
                return ""
            entries = [entry for entry in os.scandir(self.path) if known(entry.name)]
            seen = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
        return digest_of((name, at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_ino) for name, at in seen)

    def create(self, name: str) -> "_DirectorySink":
        assert known(name)
        return _DirectorySink(self, name)

    def read(self, name: str) -> Iterator[bytes]:
        assert known(name)
        location = self.location.below(name)
        with _classified(location):
            try:
                handle = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:
                raise FileGone(location) from None
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise FileGone(location, "is a link, which is not followed") from None
                raise
            try:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise FileGone(location, "is no plain file")
                while piece := os.read(handle, PIECE_BYTES):
                    yield piece
            finally:
                os.close(handle)

    def remove(self, name: str) -> None:
        assert known(name)
        with _classified(self.location), suppress(FileNotFoundError):
            os.unlink(self.path / name)

    def clear(self) -> None:
        with _classified(self.location):
            unfinished = [
                entry.name
                for entry in os.scandir(self.path)
                if known(entry.name.removeprefix(".").rpartition(".")[0]) and entry.is_file(follow_symlinks=False)
            ]
            for name in (*unfinished, *sorted(self.sizes())):
                with suppress(FileNotFoundError):
                    os.unlink(self.path / name)
            try:
                os.rmdir(self.path)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # the folder has foreign files
                    raise


class _DirectorySink:
    """Writes a temporary file, syncs it, then gives it its final name, which must be free."""

    def __init__(self, folder: DirectoryFolder, name: str):
        self._location = folder.location.below(name)
        self._final = folder.path / name
        with _classified(folder.location):
            handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder.path)
        self._temporary = Path(temporary)
        self._file = os.fdopen(handle, "wb", buffering=PIECE_BYTES)

    def write(self, data: bytes) -> None:
        with _classified(self._location.parent):
            self._file.write(data)

    def close(self) -> None:
        try:
            with _classified(self._location.parent):
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
                try:
                    # A link fails if the name is taken; a rename would replace the existing file.
                    os.link(self._temporary, self._final)
                except FileExistsError:
                    raise FileThere(self._location) from None
                except OSError as error:
                    if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                        raise
                    self._rename()
                with suppress(OSError):  # not supported by every file system
                    whole_files.sync(self._final.parent)
        finally:
            self.abandon()

    def abandon(self) -> None:
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            os.unlink(self._temporary)

    def _rename(self) -> None:
        """For file systems without hard links, such as those of memory cards."""
        if self._final.exists():
            raise FileThere(self._location)
        os.rename(self._temporary, self._final)


@contextmanager
def _classified(location: Location) -> Iterator[None]:
    """Turns errors of the operating system into those of `sluice.storage.folder`."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise location_full(location, error.strerror or "no room") from error
        if error.errno in _WAITS:
            raise LocationUnreachable(location, error.strerror or "it does not answer") from error
        raise LocationUnusable(
            location, f"{error.strerror}. The account {_account()} must be able to read and write there"
        ) from error


def _account() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"with id {os.geteuid()}"
