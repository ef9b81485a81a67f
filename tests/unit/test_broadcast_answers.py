"""Answers to a query that is asked of all databases: `sluice.model.broadcast`."""

import pytest

from sluice.airflow.steps_broadcast import lines
from sluice.model.broadcast import MOST_ROWS, Answer, AnswerState, Broadcast, Row, state

ROWS: list[Row] = [("1", None), ("2", "a | b"), ("3", "")]


def test_answers_are_equal_in_any_order_and_whatever_columns_are_called() -> None:
    assert state(Answer.of(("a", "b"), ROWS, 10), Answer.of((), ROWS[::-1], 0)) is AnswerState.EQUAL


@pytest.mark.parametrize(
    "other", [ROWS[:2], [*ROWS, ROWS[0]], [("1", ""), *ROWS[1:]], [("1", "None"), *ROWS[1:]], [("1",), ("2",), ("3",)]]
)
def test_any_other_row_is_a_difference(other: list[Row]) -> None:
    assert state(Answer.of((), ROWS, 10), Answer.of((), other, 10)) is AnswerState.DIFFERENT


def test_a_slave_without_an_answer_waits_and_one_with_an_error_failed() -> None:
    assert state(Answer(), None) is AnswerState.WAITING
    assert state(None, Answer()) is AnswerState.WAITING
    assert state(Answer(), Answer(error="no such table")) is AnswerState.FAILED


def test_rows_with_a_secret_column_are_compared_and_not_kept() -> None:
    answer = Answer.of(("id", "Password"), [("1", "x")], 10)
    assert answer.count == 1 and answer.rows == ()


def test_too_many_rows_are_no_answer() -> None:
    assert Answer.of((), [("1",)] * (MOST_ROWS + 1), 10).error
    assert not Answer.of((), [("1",)] * MOST_ROWS, 10).error


def test_an_answer_comes_back_from_its_text() -> None:
    answer = Answer.of(("a", "ä"), ROWS, 2)
    assert Answer.parse(answer.text()) == answer and answer.rows == tuple(ROWS[:2])


def test_people_read_the_state_of_each_slave_and_what_differs() -> None:
    master = Answer.of(("n",), [("1",), (None,)], 1)
    slaves = {"a": master, "b": Answer.of(("n",), [("2",)], 1), "c": None, "d": Answer(error="gone")}
    assert lines(Broadcast(7, "TABLE public.n", "anna", "now", master, slaves)) == [
        "query 7, asked by anna at now: TABLE public.n",
        "master: 2 rows; 1; …",
        "a: equal",
        "b: different, 1 row; 2",
        "c: waiting",
        "d: failed, gone",
    ]
