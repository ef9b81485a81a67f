"""Rotation of the services' logs. Their processes keep them open, so each is copied and then truncated."""

import logging
import shutil
from pathlib import Path

log = logging.getLogger("sluice.supervisor")

MAX_BYTES = 20 << 20
KEPT = 2


def rotate(folder: Path, max_bytes: int = MAX_BYTES) -> list[Path]:
    """Rotates every `*.log` that is larger than `max_bytes`, and returns them.

    All writers append (O_APPEND), so they go on at the start. Lines written between copy and truncation are lost.
    """
    rotated = []
    for file in folder.glob("*.log"):
        try:
            if file.stat().st_size > max_bytes:
                _rotate(file)
                rotated.append(file)
        except OSError as error:  # e.g. a full disk, which must not end the supervisor
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
