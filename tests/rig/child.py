"""Processes that tests start, and that end with them, also where the run of the tests is killed."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_WITH_PARENT = ROOT / "spark_jobs" / "with_parent.py"


def ends_with_parent(command: Sequence[str]) -> list[str]:
    """The command such that it is killed when the thread that starts it ends."""
    return [sys.executable, "-I", str(_WITH_PARENT), str(os.getpid()), *command]
