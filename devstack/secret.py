"""Generated values. Each is made once and kept in a file that only its owner can read."""

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from sluice import whole_files


def write_private(path: Path, text: str, *, synced: bool = True) -> None:
    """Writes a file that only its owner can read; it replaces an older one.

    `synced` waits for the disk, so that the file survives a loss of power.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    whole_files.write(path, text, durable=synced, mode=0o600)


def keep(path: Path, make: Callable[[], str]) -> str:
    """Returns the text in `path`. If there is none, writes the result of `make`, unless another process was first."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return path.read_text()
        made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        write_private(made, make())
        with contextlib.suppress(FileExistsError):
            os.link(made, path)
        made.unlink()


def keep_secret(path: Path, length: int = 32) -> str:
    """Returns a kept password of `length` random bytes, in characters that need no quoting in URLs and shells."""
    return keep(path, lambda: secrets.token_urlsafe(length))
