"""The DAG `rejects` on a real slave: what a person sees, requests and gets as an answer."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice import config
from sluice.airflow import steps_rejects
from sluice.airflow.steps_rejects import decide, numbers
from sluice.airflow.task_context import TaskContext
from sluice.control.checkpoint import CheckpointStore
from sluice.control.rejects import RejectStore
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.reject import RejectStatus
from sluice.vendors.postgres.connection import connect, native
from tests.airflow_connections import connect_airflow
from tests.errors import raises_code
from tests.waiting import until

DEMO = Prefix("DEMO_")


@pytest.fixture
def store(
    database: Callable[..., ConnectionInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RejectStore]:
    """The slave `a` of DEMO_ with two rejects."""
    info = database()
    connect_airflow(monkeypatch, "a", info)
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    (tmp_path / "DEMO.yaml").write_text(
        "prefix: DEMO_\nmaster: {conn_id: m}\nslaves:\n  a: {conn_id: a}\ntables:\n  public.*: {}\n"
    )
    with connect(info, application="test", autocommit=True) as connection:
        CheckpointStore(connection, DEMO, "sluice", "a").ensure()
        connection.execute(
            "INSERT INTO sluice.demo_rejects (slave, repl_key, schema, tablename, action, reason)"
            " SELECT 'a', g, 'public', 't', 'DELETE', 'found none' FROM generate_series(1, 2) g"
        )
        yield RejectStore(connection, DEMO, "sluice", "a")


def run(action: str, ids: str | None = None, *, force: bool = False) -> str:
    context: dict[str, Any] = {
        "dag": SimpleNamespace(dag_id="rejects"),
        "dag_run": SimpleNamespace(triggering_user_name="anna"),
        "params": {"action": action, "ids": ids, "force": force},
    }
    return str(decide.body(TaskContext(config.load("DEMO_"), "a", context)))


def test_rejects_are_listed(store: RejectStore, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert run("list") == "set aside: 2 changes"
    assert "set aside  public.t DELETE (1): found none" in caplog.text


def test_a_dropped_reject_is_settled_in_the_persons_name(store: RejectStore) -> None:
    assert run("drop", "2") == "1 change dropped"
    (dropped,) = store.read([RejectStatus.DROPPED])
    assert (dropped.id, dropped.settled_by) == (2, "anna")
    assert run("drop", "all") == "1 change dropped"
    assert store.open() == []


@pytest.mark.parametrize("ids", [None, "", "x", "1, 77", "1 -2"])
def test_unknown_numbers_are_refused(store: RejectStore, ids: str | None) -> None:
    with raises_code("unknown-rejects", match="action list"):
        run("drop", ids)
    assert len(store.open()) == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2-5", [2, 3, 5]),
        ("3", [3]),
        ("5, 1-2 9-9999999999", [2, 5, 9]),
        ("ALL", [2, 3, 5, 9]),
        ("2-5,3-9", [2, 3, 5, 9]),
    ],
)
def test_numbers_ranges_and_all(text: str, found: list[int]) -> None:
    assert numbers(text, [2, 3, 5, 9]) == found


@pytest.mark.parametrize("text", ["5-2", "6-8", "2-", "-5", "2-5-9", "2,4"])
def test_a_range_without_anything_in_it_is_refused(text: str) -> None:
    with raises_code("unknown-rejects"):
        numbers(text, [2, 3, 5, 9])


def test_answers_of_the_apply_are_shown(store: RejectStore) -> None:
    def answer() -> None:
        with connect(info_of(store), application="answers", autocommit=True) as connection:
            mine = RejectStore(connection, DEMO, "sluice", "a")
            until(lambda: len(mine.read([RejectStatus.ASKED])) == 2)
            mine.move([1], RejectStatus.APPLIED, "anna")
            mine.move([2], RejectStatus.SET_ASIDE, answer="the row is another one")

    thread = threading.Thread(target=answer)
    thread.start()
    with raises_code("rejects-refused", match=r"^Not applied: 1 change\. 2: the row is another one\. Fix"):
        run("apply", "1 2", force=True)
    thread.join()
    assert [reject.force for reject in store.read(RejectStatus)] == [True, True]


def test_without_an_apply_the_request_stays_open(store: RejectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_rejects, "WAIT_SECONDS", 0.0)
    assert "2 wait for the apply" in run("apply", "all")
    assert [(each.status, each.asked_by) for each in store.open()] == [(RejectStatus.ASKED, "anna")] * 2


def info_of(store: RejectStore) -> ConnectionInfo:
    found = native(store.connection).info
    return ConnectionInfo("postgres", found.host, found.port, found.dbname, found.user, found.password)
