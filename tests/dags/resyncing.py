"""A pair of real databases with configuration and connections, and runs of DAGs on it."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

from sluice.model.connection import ConnectionInfo
from tests.airflow_connections import connect_airflow
from tests.rig.rig import Rig

DAGS = Path(__file__).resolve().parents[2] / "dags"
TABLES = """
CREATE TABLE public.people (id int PRIMARY KEY, name text, password text);
CREATE TABLE public.log (line text)"""


@pytest.fixture
def pair(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    airflow_database: None,
) -> Iterator[Rig]:  # fmt: skip
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    made = Rig.normal(database, redis_url, tmp_path, TABLES)
    for name, info in (("M", made.pair.master_info), ("S", made.pair.slave_info)):
        connect_airflow(monkeypatch, name, info)
    made.master.execute("INSERT INTO public.people SELECT i, 'n' || i, 'hidden' || i FROM generate_series(1, 100) i")
    made.master.execute("INSERT INTO public.log SELECT 'l' FROM generate_series(1, 10) i")
    yield made
    made.close()


def dag_of(file: str) -> DAG:
    """The DAG of a file in `dags`. Parsing all of them takes longer than most tests."""
    return DagBag(str(DAGS / f"{file}.py")).dags[file]


def run(*, approve: bool = False, **params: Any) -> tuple[str, dict[str, str]]:
    """Returns the state of the run and of each task; mapped ones together. `approve`: the run waits for nobody's
    approval."""
    marked = "approve_repair" if approve else None
    found = dag_of("resync").test(
        run_conf=params, logical_date=datetime.now(UTC), use_executor=False, mark_success_pattern=marked
    )
    states: dict[str, set[str]] = {}
    for ti in found.get_task_instances():
        states.setdefault(ti.task_id, set()).add(str(ti.state))
    return str(found.state), {task: "+".join(sorted(state)) for task, state in states.items()}


def reports(tmp_path: Path) -> tuple[list[Any], str]:
    (folder,) = (tmp_path / "home" / "reports").iterdir()
    return json.loads((folder / "report.json").read_text()), (folder / "report.html").read_text()
