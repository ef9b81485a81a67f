"""The DAG `gate`: a person closes the gate of a slave and opens it again."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice import config
from sluice.airflow.steps_gate import decide
from sluice.airflow.task_context import TaskContext
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import redis_store
from sluice.coordination.gate import INITIAL_UPDATE, Gate
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect
from tests.airflow_connections import connect_airflow
from tests.errors import raises_code

DEMO = Prefix("DEMO_")


@pytest.fixture
def slave(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ConnectionInfo:
    """The slave `a` of DEMO_."""
    info = database()
    connect_airflow(monkeypatch, "a", info)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    (tmp_path / "DEMO.yaml").write_text(
        "prefix: DEMO_\nmaster: {conn_id: m}\nslaves:\n  a: {conn_id: a}\ntables:\n  public.*: {}\n"
    )
    return info


@pytest.fixture
def configured(slave: ConnectionInfo) -> ConnectionInfo:
    """A slave as after the begin of an initial update."""
    with connect(slave, application="test", autocommit=True) as connection:
        CheckpointStore(connection, DEMO, "sluice", "a").ensure()
    return slave


def run(action: str, reason: str | None = None) -> str:
    context: dict[str, Any] = {
        "dag": SimpleNamespace(dag_id="gate"),
        "dag_run": SimpleNamespace(triggering_user_name="anna"),
        "params": {"action": action, "reason": reason},
    }
    return str(decide.body(TaskContext(config.load("DEMO_"), "a", context)))


def kept(info: ConnectionInfo) -> str:
    with connect(info, application="test", autocommit=True) as connection:
        found = CheckpointStore(connection, DEMO, "sluice", "a").read()
    return found.closed if found else ""


def test_a_person_closes_and_opens(configured: ConnectionInfo, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert run("show") == "DEMO_ → a: the gate is open"
    assert "DEMO_ → a: the gate is open" in caplog.text
    said = run("close", "  a new index ")
    assert said.startswith("DEMO_ → a: the gate is closed: admin (anna, ") and said.endswith(" UTC): a new index")
    assert run("show") == said
    assert json.loads(kept(configured))["reason"] == "a new index"
    assert run("open") == "DEMO_ → a: the gate is open"
    assert kept(configured) == ""


def test_closures_of_others_stay(configured: ConnectionInfo, redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with redis_store.connect(redis_url) as store:
        Gate(store, DEMO, "a").close(INITIAL_UPDATE, "run 7", "tables are loaded")
    assert run("open").endswith("UTC): tables are loaded")
    assert "no person had closed the gate" in caplog.text


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_closing_needs_a_reason(configured: ConnectionInfo, reason: str | None) -> None:
    with raises_code("reason-missing", match="Give a reason"):
        run("close", reason)
    assert run("show").endswith("is open")


def test_before_the_first_initial_update_there_is_nothing_to_hold_back(slave: ConnectionInfo) -> None:
    with raises_code("nothing-to-hold", match="DEMO_ → a: there is nothing to hold back"):
        run("close", "maintenance")
    assert run("show").endswith("is open") and run("open").endswith("is open")
