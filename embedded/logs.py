"""Rotation of the services' logs, which their processes keep open: copied aside, then cut in place."""

import shutil
from pathlib import Path

MAX_BYTES = 20 << 20
KEPT = 2


def rotate(folder: Path, max_bytes: int = MAX_BYTES) -> list[Path]:
    """Rotate every `*.log` that has grown too large; returns those.

    All writers append (O_APPEND), hence go on at the new start. What is written between copy and cut is lost: lines of
    a log, never data.
    """
    rotated = []
    for log in folder.glob("*.log"):
        if log.stat().st_size <= max_bytes:
            continue
        for number in range(KEPT, 1, -1):
            older = log.with_name(f"{log.name}.{number - 1}")
            if older.exists():
                older.replace(log.with_name(f"{log.name}.{number}"))
        aside = log.with_name(f"{log.name}.1")
        shutil.copyfile(log, aside)
        aside.chmod(0o600)
        with open(log, "r+b") as file:
            file.truncate(0)
        rotated.append(log)
    return rotated
