"""Generated values: made once, kept in a file that only its owner can read, the same for all who ask."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def _temporary(path: Path, text: str, *, synced: bool = True) -> Iterator[Path]:
    """The text in a file of mode 0600 beside `path`; removed at the end unless it was renamed."""
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
    """Write a file of mode 0600 that appears whole or not at all, in the place of an older one.

    `synced` waits for the disk: needed where the file must outlive a loss of power.
    """
    with _temporary(path, text, synced=synced) as temporary:
        temporary.replace(path)


def keep(path: Path, make: Callable[[], str]) -> str:
    """The text in `path`; where there is none yet, what `make` returns, or another process made at the same time."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return path.read_text()
        with _temporary(path, make()) as temporary, contextlib.suppress(FileExistsError):
            os.link(temporary, path)


def keep_secret(path: Path, length: int = 32) -> str:
    """A generated password of so many random bytes, in characters that URLs and shells leave alone."""
    return keep(path, lambda: secrets.token_urlsafe(length))
