"""Questions to people: an answer that Airflow forgets at a retry is kept."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import HITLDetailResponse
from airflow.sdk.exceptions import AirflowRuntimeError, TaskAwaitingInput
from airflow.sdk.execution_time.comms import ErrorResponse

from sluice.airflow import kept_answer
from sluice.airflow.kept_answer import KeepsAnswer

RETRIES = 5
AT = datetime(2026, 1, 2, tzinfo=UTC)
UNANSWERED = HITLDetailResponse(response_received=False, responded_at=None, chosen_options=None)
APPROVED = HITLDetailResponse.model_validate(
    {
        "response_received": True,
        "responded_at": AT,
        "chosen_options": ["Approve"],
        "params_input": {},
        "responded_by_user": {"id": "7", "name": "anna"},
    }
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that Airflow is asked to put."""
    questions: list[str] = []
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail",
        lambda **given: questions.append(given["subject"]),
    )
    return questions


def run(monkeypatch: pytest.MonkeyPatch, stored: HITLDetailResponse | None, *, try_number: int, max_tries: int) -> Any:
    """The task's result, or the deferral in which it waits for a person."""

    def read(_: object) -> HITLDetailResponse:
        if stored is None:
            raise AirflowRuntimeError(ErrorResponse(detail={"status_code": 404}))
        return stored

    monkeypatch.setattr(kept_answer, "get_hitl_detail_content_detail", read)
    task = KeepsAnswer(task_id="ask", subject="Go on?", options=["Approve", "Reject"], retries=RETRIES)
    ti = SimpleNamespace(id="an id", try_number=try_number, max_tries=max_tries)
    try:
        return task.execute({"ti": ti, "task_instance": ti})  # type: ignore[typeddict-item]
    except TaskAwaitingInput:
        return "waits"


def test_an_answer_to_an_earlier_try_is_used_and_nobody_is_asked_again(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(monkeypatch, APPROVED, try_number=2, max_tries=RETRIES)
    assert (result["chosen_options"], result["responded_at"]) == (["Approve"], AT)
    assert result["responded_by_user"] == {"id": "7", "name": "anna"} and asked == []


@pytest.mark.parametrize(
    ("stored", "try_number", "max_tries"),
    [
        pytest.param(APPROVED, 1, RETRIES, id="first try"),
        pytest.param(APPROVED, 2, RETRIES + 1, id="cleared by a person"),
        pytest.param(UNANSWERED, 2, RETRIES, id="nobody has answered"),
        pytest.param(None, 2, RETRIES, id="the first try ended before it asked"),
    ],
)
def test_a_person_is_asked(
    stored: HITLDetailResponse | None,
    try_number: int,
    max_tries: int,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(monkeypatch, stored, try_number=try_number, max_tries=max_tries) == "waits"
    assert asked == ["Go on?"]
