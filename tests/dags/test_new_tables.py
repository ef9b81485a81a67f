"""Which loads of joined tables are started."""

from types import SimpleNamespace
from typing import Any

import pytest

from sluice.airflow import new_tables
from sluice.coordination import redis_store
from sluice.coordination.gate import ADMIN, ERROR, Gate
from sluice.model.names import Prefix, TableName

PREFIX = Prefix("DEMO_")


@pytest.fixture
def task(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A task of a pair whose slave lacks one table."""
    monkeypatch.setattr(new_tables, "_to_load", lambda *_: [TableName("public", "lines")])
    replication = SimpleNamespace(slave=lambda _: SimpleNamespace(new_tables="load"))
    return SimpleNamespace(prefix=PREFIX, redis=redis_store.connect(redis_url), replication=replication)


def test_a_table_that_joined_is_loaded_also_while_an_administrator_holds_the_slave(task: Any) -> None:
    Gate(task.redis, PREFIX, "dr1").close(ADMIN, "anna", "a new disk")
    (load,) = new_tables._loads(task, ["dr1"])
    assert load["conf"] == {"prefix": "DEMO_", "slave": "dr1", "tables": ["public.lines"]}


def test_no_load_starts_an_apply_while_a_conflict_waits_for_a_person(
    task: Any, caplog: pytest.LogCaptureFixture
) -> None:
    Gate(task.redis, PREFIX, "dr1").close(ERROR, "apply", "public.orders, row id = '7': UPDATE expected one row.")
    assert new_tables._loads(task, ["dr1"]) == []
    assert "public.orders, row id = •••" in caplog.text and "clear the task apply" in caplog.text
    assert 'Start the DAG initial_update with prefix DEMO_, slave dr1 and tables ["public.lines"].' in caplog.text
