"""Requests to an apply and its answers arrive as they were sent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.model.names import TableName
from sluice.model.requests import (
    Refused,
    Repaired,
    RepairRequest,
    Snapshots,
    SnapshotsRequest,
    answer_text,
    parse_answer,
    parse_request,
    request_text,
)
from tests.errors import raises_code

TEXTS = st.text(max_size=20)
VALUES = st.none() | TEXTS
REPAIRS = st.builds(
    RepairRequest,
    st.builds(TableName, TEXTS, TEXTS),
    st.lists(TEXTS, max_size=3).map(tuple),
    st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple),
    st.lists(st.lists(VALUES, max_size=3).map(tuple), max_size=3).map(tuple),
)


@given(REPAIRS)
def test_a_repair_comes_over_with_nulls_and_empty_texts_apart(request: RepairRequest) -> None:
    assert parse_request(request_text(request)) == request


def test_a_request_for_snapshots_and_its_answer_come_over() -> None:
    assert parse_request(request_text(SnapshotsRequest())) == SnapshotsRequest()
    answer = Snapshots("00000003-1", "00000004-1", "postgres:1:2:", 0.25)
    assert parse_answer(answer_text(answer), Snapshots.read) == answer


def test_the_answer_to_a_repair_is_what_was_done_or_why_not() -> None:
    for answer in (Repaired(3, "postgres:1:2:", 0.5), Refused('public."T" is not loaded')):
        assert parse_answer(answer_text(answer), Repaired.read) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        json.dumps({"kind": "later", "values": {}}),
        json.dumps({"kind": "repair", "values": {}}),
        json.dumps({"kind": "repair", "values": {"table": ["a"], "key": [], "columns": [], "rows": []}}),
    ],
)
def test_a_request_of_another_release_is_named(text: str) -> None:
    with raises_code("unknown-request", match=r"does not understand a request: .* clear its task apply"):
        parse_request(text)


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"master": "a", "slave": "b", "position": "c", "seconds": "?"})])
def test_an_answer_of_another_release_is_named(text: str) -> None:
    with raises_code("unknown-request", match="answer is not understood"):
        parse_answer(text, Snapshots.read)
