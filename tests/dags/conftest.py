"""An Airflow of its own for these tests."""

import os
import subprocess
import sys

import pytest

from tests.airflow_home import ROOT


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """The migrated metadata database, for tests that run DAGs."""
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        check=True, capture_output=True, env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"},
    )  # fmt: skip
