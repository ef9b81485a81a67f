"""Generated secrets: made once, kept in a file that only its owner can read."""

import os
import secrets
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def keep(path: Path, length: int = 32) -> str:
    """The secret in `path`, generated when the file is new. URL- and shell-safe characters only."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(length))
    return path.read_text()
