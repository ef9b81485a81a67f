"""Questions to people: an answer that Airflow forgets at a retry is kept."""

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import TaskAwaitingInput

from sluice.airflow import connections
from sluice.airflow.kept_answer import KeepsAnswer

RETRIES = 5


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> list[str]:
    """The questions that Airflow is asked to put, each of which drops the answer to the one before."""
    questions: list[str] = []
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail",
        lambda **given: questions.append(given["subject"]),
    )
    monkeypatch.setattr(connections, "redis_url", lambda: redis_url)
    return questions


def waits(try_number: int, max_tries: int = RETRIES) -> bool:
    """Runs a try of the task. Whether it is parked: Airflow resumes it at once if the question is answered."""
    task = KeepsAnswer(task_id="ask", subject="Go on?", options=["Approve", "Reject"], retries=RETRIES)
    ti = SimpleNamespace(id="an id", try_number=try_number, max_tries=max_tries)
    with pytest.raises(TaskAwaitingInput) as parked:
        task.execute({"ti": ti, "task_instance": ti})  # type: ignore[typeddict-item]
    return bool(parked.value.method_name == "execute_complete")


def test_a_later_try_waits_without_putting_the_question_again(asked: list[str]) -> None:
    assert waits(try_number=1) and waits(try_number=2) and waits(try_number=3)
    assert asked == ["Go on?"]


def test_the_question_is_put_again_once_a_person_cleared_the_task(asked: list[str]) -> None:
    assert waits(try_number=1) and waits(try_number=2, max_tries=RETRIES + 1)
    assert asked == ["Go on?", "Go on?"]


def test_the_question_is_put_if_the_try_before_ended_too_early_for_it(asked: list[str]) -> None:
    assert waits(try_number=2)
    assert asked == ["Go on?"]
