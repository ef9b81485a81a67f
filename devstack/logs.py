"""Rotation of the services' logs, which their processes keep open: copied aside, then cut in place."""

import logging
import shutil
from pathlib import Path

log = logging.getLogger("sluice.supervisor")

MAX_BYTES = 20 << 20
KEPT = 2


def rotate(folder: Path, max_bytes: int = MAX_BYTES) -> list[Path]:
    """Rotate every `*.log` that has grown too large; returns those.

    All writers append (O_APPEND), hence go on at the new start. What is written between copy and cut is lost: lines of
    a log, never data.
    """
    rotated = []
    for file in folder.glob("*.log"):
        try:
            if file.stat().st_size > max_bytes:
                _rotate(file)
                rotated.append(file)
        except OSError as error:  # a full disk, say: it must not end who keeps the services running
            log.error("%s could not be rotated: %s", file, error)
    return rotated


def _rotate(file: Path) -> None:
    for number in range(KEPT, 1, -1):
        older = file.with_name(f"{file.name}.{number - 1}")
        if older.exists():
            older.replace(file.with_name(f"{file.name}.{number}"))
    temporary = file.with_name(f"{file.name}.1")
    temporary.touch(mode=0o600)
    shutil.copyfile(file, temporary)
    with open(file, "r+b") as opened:
        opened.truncate(0)
