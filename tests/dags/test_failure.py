"""How errors end a task: at once if a person must act, with a retry if an outage may pass."""

import errno
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred

from sluice.airflow.failure import SEE_ABOVE, UNFORESEEN_TRIES, XCOM_KEY, as_airflow
from sluice.database.errors import DatabaseUnreachable, UndefinedTable
from sluice.errors import Terminal, Transient


class Instance(SimpleNamespace):
    """A task instance that records the pushed XComs."""

    def __init__(self, try_number: int = 1) -> None:
        super().__init__(try_number=try_number, pushed={})

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


def ended_by(error: BaseException, try_number: int = 1) -> tuple[BaseException, Instance]:
    ti = Instance(try_number)
    with pytest.raises(BaseException) as raised, as_airflow({"ti": ti}):
        raise error
    return raised.value, ti


def test_a_terminal_error_ends_the_task_at_once_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    error, ti = ended_by(Terminal("Add the column."))
    # Airflow logs the exception and all that it was raised from.
    assert isinstance(error, AirflowFailException) and str(error) == SEE_ABOVE and error.__suppress_context__
    assert [one.message for one in caplog.records] == ["Add the column."]
    assert ti.pushed == {XCOM_KEY: "Add the column."}


def test_an_outage_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    error, _ = ended_by(Transient("The master is down."))
    assert [one.message for one in caplog.records] == ["The master is down."] and str(error) == SEE_ABOVE
    assert isinstance(error, AirflowException) and not isinstance(error, AirflowFailException)


def test_an_error_of_a_session_ends_the_task_or_is_tried_again() -> None:
    assert isinstance(ended_by(UndefinedTable("no such column"))[0], AirflowFailException)
    assert not isinstance(ended_by(DatabaseUnreachable("bye"))[0], AirflowFailException)


def test_an_unexpected_error_is_retried_a_few_times() -> None:
    assert not isinstance(ended_by(KeyError("x"), 1)[0], AirflowFailException)
    assert isinstance(ended_by(KeyError("x"), UNFORESEEN_TRIES)[0], AirflowFailException)


def test_a_full_disk_is_told_with_its_place_and_tried_again_however_often(caplog: pytest.LogCaptureFixture) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/srv/sluice/run/jobs/x.json")
    error, _ = ended_by(full, 10 * UNFORESEEN_TRIES)
    assert isinstance(error, AirflowException) and not isinstance(error, AirflowFailException)
    (told,) = [one.message for one in caplog.records]
    assert told.startswith("No space left on device: /srv/sluice/run/jobs/x.json. Make room there")


@pytest.mark.parametrize("way", [AirflowSkipException("enough"), TaskDeferred(trigger=None, method_name="x")])
def test_airflows_own_exceptions_pass_through(way: BaseException) -> None:
    error, ti = ended_by(way)
    assert error is way
    assert ti.pushed == {}
