"""A machine with the library and its configuration, but without the devstack."""

import os
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_OWN = ("SLUICE_", "AIRFLOW", "PG", "PYTHON", "VIRTUAL_ENV")
"""Beginnings of variables that such a machine does not have."""


def copied(folder: Path) -> Path:
    """A copy of the files that such a machine needs; it uses the packages of this checkout.

    What is compiled comes along: each copy would take seconds for that.
    """
    root = folder / "sluice"
    root.mkdir()
    for name in ("plugins", "include"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    for name in ("sluice", "requirements.lock"):
        shutil.copy(ROOT / name, root)
    (root / ".venv").symlink_to((ROOT / ".venv").resolve())
    return root


def command(root: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    """The arguments of `subprocess` to run `./sluice` of the copy, in a folder without modules."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    return {"args": [root / "sluice", *arguments], "cwd": root.parent, "env": {**kept, **variables}}
