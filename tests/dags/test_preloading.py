"""What Airflow's components import before they fork."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DAGS = sorted(path.stem for path in (ROOT / "dags").glob("*.py"))
COMPONENT, TASK = "object()", "TaskRunnerMarker()"
STARTED = f"""
import importlib, json, sys
from airflow.listeners.listener import get_listener_manager
from airflow.sdk.execution_time.task_runner import TaskRunnerMarker
get_listener_manager().hook.on_starting(component=eval(sys.argv[1]))
started = set(sys.modules)
for dag in {DAGS}:
    importlib.import_module(dag)
print(json.dumps([sorted(started), sorted(sys.modules)]))
"""


def imported(component: str, home: Path) -> tuple[set[str], set[str]]:
    """Names of modules that the start of a component imports, and of all when every DAG is there."""
    folders = os.pathsep.join(str(ROOT / folder) for folder in ("plugins", "dags"))
    places = {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"), "PYTHONPATH": folders}
    done = subprocess.run(
        [sys.executable, "-c", STARTED, component], env={**os.environ, **places}, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    started, everything = json.loads(done.stdout.splitlines()[-1])
    return set(started), set(everything)


def own(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "sluice"}


def test_a_component_that_forks_has_imported_all_that_dags_import(tmp_path: Path) -> None:
    started, everything = imported(COMPONENT, tmp_path)
    assert own(everything) == own(started)
    assert "numpy" in started and not {"grpc", "pyspark"} & everything, "gRPC does not survive a fork"


@pytest.mark.long
def test_a_task_imports_only_what_its_dag_needs(tmp_path: Path) -> None:
    started, everything = imported(TASK, tmp_path)
    assert {"sluice.airflow.job_operator", "numpy"} <= everything - started
