"""The note of a run names its pair, since the run's own name does not."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.serialization.definitions.param import SerializedParamsDict

from sluice.airflow.run_note import LONGEST, note_of, on_dag_run_running


@pytest.mark.parametrize(
    ("params", "note"),
    [
        ({"prefix": "DEMO_"}, "DEMO_"),
        ({"prefix": "DEMO_", "slave": "dr1"}, "DEMO_ → dr1"),
        ({"prefix": "DEMO_", "slave": "dr1,dr2", "transfer": "files", "tables": []}, "DEMO_ → dr1, dr2: by files"),
        ({"prefix": "DEMO_", "slave": "dr1", "transfer": "online", "tables": ["public.a"]}, "DEMO_ → dr1: public.a"),
        ({"prefix": "DEMO_", "slave": "dr1", "action": "close", "reason": "disk"}, "DEMO_ → dr1: close; disk"),
        ({"prefix": "DEMO_", "slave": "dr1", "action": "drop", "ids": "2-5", "force": False}, "DEMO_ → dr1: drop; 2-5"),
        ({"prefix": None, "slave": None, "action": None}, ""),
        ({}, ""),
    ],
)
def test_the_pair_comes_first(params: dict[str, Any], note: str) -> None:
    assert note_of(params) == note


def run_of(conf: dict[str, Any] | None, note: str | None = None, tag: str = "sluice") -> Any:
    params = SerializedParamsDict({"prefix": "DEMO_", "slave": "dr1", "action": "show", "reason": None})
    dag = SimpleNamespace(tags={tag}, params=params)
    return SimpleNamespace(dag=dag, conf=conf, note=note)


def test_defaults_count_where_nothing_was_chosen() -> None:
    run = run_of({"action": "open"})
    on_dag_run_running(run, "started")
    assert run.note == "DEMO_ → dr1: open"


def test_a_persons_note_stays_and_a_restarted_run_gets_no_second_note() -> None:
    run = run_of(None, "for the audit")
    for _ in range(2):
        on_dag_run_running(run, "started")
    assert run.note == "DEMO_ → dr1: show (for the audit)"


def test_a_very_long_note_fits_into_airflows_column() -> None:
    run = run_of({"reason": "x" * 5000, "action": "close"}, "y" * 1000)
    on_dag_run_running(run, "started")
    assert len(run.note) == LONGEST


def test_runs_of_other_dags_are_left_alone() -> None:
    run = run_of({}, tag="theirs")
    on_dag_run_running(run, "started")
    assert run.note is None
