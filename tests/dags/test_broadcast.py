"""The DAG `broadcast` on a real master: a person's query, and what is shown for a slave that has not answered."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice import config
from sluice.airflow import steps_broadcast
from sluice.airflow.steps_broadcast import collect, queue
from sluice.airflow.task_context import TaskContext
from sluice.capture import resources
from sluice.configuration.model import UnknownSlave
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.operate.broadcast import NotOffered
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow
from tests.errors import raises_code

FILE = "prefix: DEMO_\nmaster: {conn_id: m}\nslaves: {a: {conn_id: a}, b: {conn_id: b}}\ntables: {public.*: {}}\n"


def run(body: Callable[[TaskContext], Any], number: int = 0, **params: Any) -> Any:
    context: dict[str, Any] = {
        "dag": SimpleNamespace(dag_id="broadcast"),
        "dag_run": SimpleNamespace(triggering_user_name="anna"),
        "ti": SimpleNamespace(xcom_pull=lambda task_ids: number),
        "params": {"prefix": "DEMO_", "statement": "SELECT 1 AS n", "slaves": None, "seconds": 10, **params},
    }
    return body(TaskContext.of(context))  # type: ignore[arg-type]


def test_a_query_is_asked_in_the_name_of_a_person_and_slaves_are_said_to_wait(
    database: Callable[..., ConnectionInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = database()
    connect_airflow(monkeypatch, "m", info)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setattr(steps_broadcast, "WAIT_SECONDS", 0.0)
    (tmp_path / "DEMO.yaml").write_text(FILE)
    with connect(info, application="test", autocommit=True) as master:
        resources.install(master, Prefix("DEMO_"), config.load("DEMO_").master.schema)
    with pytest.raises(NotOffered, match="broadcast: true"):
        run(queue.body)
    (tmp_path / "DEMO.yaml").write_text(f"{FILE}broadcast: true\n")
    with raises_code("statement-missing"):
        run(queue.body, statement=" ")
    with pytest.raises(UnknownSlave):
        run(queue.body, slaves="c")
    said = run(collect.body, run(queue.body), seconds=0.1).splitlines()
    assert said[0].endswith("SELECT 1 AS n") and "asked by anna" in said[0]
    assert said[1:] == ["master: 1 row; 1", "a: waiting", "b: waiting"]
    assert run(collect.body, run(queue.body, slaves="b"), seconds=0.1).splitlines()[2:] == ["b: waiting"]
