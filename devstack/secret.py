"""Generated values. Each is made once and kept in a file that only its owner can read."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def _temporary(path: Path, text: str, *, synced: bool = True) -> Iterator[Path]:
    """Writes the text into a file of mode 0600 beside `path`. Removes it at the end unless it was renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def write_private(path: Path, text: str, *, synced: bool = True) -> None:
    """Writes a file of mode 0600 atomically; it replaces an older one.

    `synced` waits for the disk, so that the file survives a loss of power.
    """
    with _temporary(path, text, synced=synced) as temporary:
        temporary.replace(path)


def keep(path: Path, make: Callable[[], str]) -> str:
    """Returns the text in `path`. If there is none, writes the result of `make`, unless another process was first."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return path.read_text()
        with _temporary(path, make()) as temporary, contextlib.suppress(FileExistsError):
            os.link(temporary, path)


def keep_secret(path: Path, length: int = 32) -> str:
    """Returns a kept password of `length` random bytes, in characters that need no quoting in URLs and shells."""
    return keep(path, lambda: secrets.token_urlsafe(length))
