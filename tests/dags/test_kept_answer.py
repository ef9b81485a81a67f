"""Questions to people: an answer that Airflow forgets at a retry is kept."""

from types import SimpleNamespace
from uuid import UUID

import pytest
from airflow.sdk.exceptions import TaskAwaitingInput, TaskDeferred

from sluice.airflow import connections
from sluice.airflow.answer_trigger import AnswerTrigger
from sluice.airflow.kept_answer import KeepsAnswer

RETRIES = 5
ID = UUID("00000000-0000-0000-0000-000000000001")


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


def run(try_number: int, max_tries: int = RETRIES) -> str:
    """Runs a try of the task: whether it waits with its own question, or for the answer to an earlier one."""
    task = KeepsAnswer(task_id="ask", subject="Continue?", options=["Approve", "Reject"], retries=RETRIES)
    ti = SimpleNamespace(id=ID, try_number=try_number, max_tries=max_tries)
    parked: TaskAwaitingInput | TaskDeferred
    try:
        task.execute({"ti": ti, "task_instance": ti})  # type: ignore[typeddict-item]
        raise AssertionError("it did not wait")
    except (TaskAwaitingInput, TaskDeferred) as found:
        parked = found
    assert parked.method_name == "execute_complete"
    if isinstance(parked, TaskAwaitingInput):
        return "asks"
    path, values = parked.trigger.serialize()
    assert path == f"{AnswerTrigger.__module__}.{AnswerTrigger.__name__}"
    assert AnswerTrigger(**values).ti_id == ID
    return "waits"


def test_a_later_try_waits_without_putting_the_question_again(asked: list[str]) -> None:
    assert [run(try_number=number) for number in (1, 2, 3)] == ["asks", "waits", "waits"]
    assert asked == ["Continue?"]


def test_the_question_is_put_again_once_a_person_cleared_the_task(asked: list[str]) -> None:
    assert [run(try_number=1), run(try_number=2, max_tries=RETRIES + 1)] == ["asks", "asks"]
    assert asked == ["Continue?", "Continue?"]


def test_the_question_is_put_if_the_try_before_ended_too_early_for_it(asked: list[str]) -> None:
    assert run(try_number=2) == "asks"
    assert asked == ["Continue?"]
