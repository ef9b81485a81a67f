"""The machine a bench ran on."""

import os
import platform
from pathlib import Path
from typing import Any

import psutil


def describe() -> dict[str, Any]:
    """For the detail of a report."""
    return {
        "machine": {
            "cores": os.cpu_count(),
            "cpu": _model(),
            "memory": psutil.virtual_memory().total,
            "system": platform.platform(),
            "Python": platform.python_version(),
        }
    }


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
