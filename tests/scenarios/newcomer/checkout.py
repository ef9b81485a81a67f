"""A checkout of Sluice as a new user has it, and the commands that are run there."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devstack.stack import Stack
from sluice.cli.airflow_api import AirflowApi
from sluice.model.connection import ConnectionInfo
from tests.stacks import until

ROOT = Path(__file__).resolve().parents[3]


def copied(folder: Path) -> Path:
    """A copy of this checkout without its state, with its packages."""
    checkout = folder / "sluice"
    unwanted = shutil.ignore_patterns(".git", ".venv*", ".sluice", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, checkout, ignore=unwanted, symlinks=True)
    (checkout / ".venv").symlink_to(Path(os.path.realpath(ROOT / ".venv")))
    return checkout


@dataclass
class Checkout:
    """`environment`: beside the variables of this process that set nothing up."""

    checkout: Path
    environment: dict[str, str]

    def run(self, text: str, servers: Mapping[str, ConnectionInfo], typed: str = "") -> str:
        """Runs commands with the addresses of `servers` in place of example hosts, in a shell without a terminal."""
        for example, info in servers.items():
            text = re.sub(rf"{re.escape(example)}(:\d+)?", f"{info.host}:{info.port}", text)
        unwanted = ("SLUICE_", "PG", "AIRFLOW", "MYSQL")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        done = subprocess.run(
            ["bash", "-euc", text],
            cwd=self.checkout,
            env={**kept, **self.environment},
            input=typed,
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=550,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        return said

    @property
    def stack(self) -> Stack:
        return Stack(self.checkout / ".sluice")

    @property
    def api(self) -> AirflowApi:
        return self.stack.airflow.api()

    def run_dag(self, dag: str, **conf: Any) -> str:
        """Runs a DAG to its end; returns the run's state."""
        run = self.api.trigger(dag, conf)
        until(lambda: self.api.run_state(dag, run) in ("success", "failed"), 300)
        return self.api.run_state(dag, run)
