"""Files that appear whole under their name: who reads one sees the old content or the new one."""

import os
import secrets
from pathlib import Path


def write(path: Path, content: str | bytes, *, durable: bool = False, mode: int | None = None) -> None:
    """Writes the file, texts in UTF-8; it replaces an older one.

    `durable`: it survives a crash of the machine once this returns. `mode`: None for what the umask leaves.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(3)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o666 if mode is None else 0o600), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content.encode() if isinstance(content, str) else content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Returns when the file, or the names in the folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
