"""The tasks of a replication whose master is a recorded stream: those on the slave work, the others say that there is
no database."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.airflow import definition_comparison, preflight_check
from sluice.airflow.apply_operator import ApplyOperator
from sluice.airflow.steps_housekeeping import (
    check_structure,
    compare_definitions,
    configured,
    keep_definitions,
    purge_items,
    tell_people,
)
from sluice.airflow.steps_master import check, install_resources
from sluice.airflow.task_context import TaskContext
from sluice.cli import status
from sluice.failover.attempt import Failover
from sluice.model.connection import ConnectionInfo
from sluice.model.failover import Action
from sluice.pair import Pair
from tests.airflow_connections import connect_airflow
from tests.errors import raises_code
from tests.unit.streams import insert, recorded


@pytest.fixture
def folder(
    database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A stream, and a slave with an Airflow connection."""
    connect_airflow(monkeypatch, "rec_dr1", database(role=True))
    found = recorded(tmp_path / "stream", [insert("a"), insert("b")])
    (tmp_path / "REC.yaml").write_text(
        f"prefix: REC_\nmaster: {{capture: stream, location: {found}}}\n"
        "slaves: {dr1: {conn_id: rec_dr1}}\ntables:\n  public.*: {}\n"
    )
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    return found


def work(**params: Any) -> TaskContext:
    given = {"prefix": "REC_", "slave": "dr1", **params}
    dag = SimpleNamespace(dag_id="cdc_apply")
    return TaskContext.of({"params": given, "dag": dag, "ti": SimpleNamespace(task_id="check"), "run_id": "manual__1"})


def test_the_apply_is_launched_with_the_slaves_connection_alone(folder: Path) -> None:
    one = work()
    preflight_check.warn(one, ["dr1"])
    payload: dict[str, Any] = ApplyOperator(task_id="apply", prefix="REC_", slave="dr1").payload(one.replication, {})
    assert list(payload["connections"]) == ["rec_dr1"]
    pair = Pair.of(one.replication, "dr1", {"rec_dr1": ConnectionInfo.from_dict(payload["connections"]["rec_dr1"])})
    assert pair.master_info.database == str(folder)
    assert definition_comparison.compare(one, ["dr1"]) is None, "there are no definitions to compare with"


def test_tasks_that_need_the_masters_database_say_so(folder: Path) -> None:
    one = work()
    for task in (check, install_resources):
        with raises_code("no-database", match=r"docs/stream\.md"):
            task.body(one)
    with raises_code("no-database"), one.master():
        pass
    with raises_code("no-database"):
        Failover.named(Pair.of(one.replication, "dr1", one.connections), "f", Action.CHECK)


def test_housekeeping_of_masters_skips_streams(folder: Path) -> None:
    assert configured.function() == [["REC_"]]
    for task in (purge_items, check_structure, keep_definitions):
        assert task.body(work()) == "a recorded stream: there is no database"
    assert compare_definitions.body(work()) == "not installed"
    assert tell_people.body(work()), "what needs a person is told all the same"


def test_the_status_shows_the_end_of_the_stream(folder: Path) -> None:
    (line,) = status.master(work().replication, lambda conn_id, vendor: pytest.fail(conn_id), "")
    assert line == f"REC_ from {folder}: change 2 of the stream s, as of 2026-11-22T10:00:00.000000Z"
