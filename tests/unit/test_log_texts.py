"""Lines of logs show no value of a row: whatever fails, wherever it is logged."""

import io
import json
import logging
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowException
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.airflow import failure
from sluice.database.conflicts import Drift, ValueUnfit
from sluice.database.errors import StatementFailed
from sluice.model.mask import NO_PATTERNS, quoted_text
from sluice.model.names import TableName
from spark_jobs import session

CANARY = "ZEISIG"
T = TableName("public", "t")
VALUES = st.text(st.sampled_from("a \n'\"()=,:;“”\\{}%")).map(lambda text: f"{text}{CANARY}{text}")


@pytest.fixture(scope="module")
def written() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger("sluice").addHandler(handler)
    yield stream
    logging.getLogger("sluice").removeHandler(handler)


def of_server(value: str) -> Exception:
    return StatementFailed(f"db1: {quoted_text(f'duplicate key: ({value})')} (SQLSTATE 23505)")


def of_row(value: str) -> Exception:
    return Drift.of_values(T, {"id": value, "no": None}, "UPDATE", {"a": (value, value * 2)}, NO_PATTERNS)


def unfit(value: str) -> Exception:
    return ValueUnfit(T, quoted_text(value), column="a", value=value)


def of_python(value: str) -> Exception:
    try:
        return KeyError({}[value])  # type: ignore[index]
    except KeyError as error:
        return error


def of_arrow(value: str) -> Exception:
    try:
        pa.array([value]).cast(pa.int64())
    except pa.ArrowInvalid as error:
        return error
    raise AssertionError


def of_json(value: str) -> Exception:
    try:
        json.loads("{" + value)
    except ValueError as error:
        return error
    raise AssertionError


MADE: tuple[Callable[[str], Exception], ...] = (of_server, of_row, unfit, of_python, of_arrow, of_json)


@settings(max_examples=50)
@given(VALUES, st.sampled_from(MADE), st.sampled_from(MADE))
def test_no_line_and_no_traceback_shows_a_value(
    written: io.StringIO, value: str, make: Callable[[str], Exception], cause: Callable[[str], Exception]
) -> None:
    log = logging.getLogger("sluice.test")
    written.seek(0)
    written.truncate()
    try:
        raise make(value) from cause(value)
    except Exception as error:
        log.warning("dr1: %s Next try in 5 s.", error)
        log.exception("unforeseen")
    text = written.getvalue()
    assert CANARY not in text
    assert "dr1: " in text and "test_log_texts.py" in text, "the place stays"


def test_no_line_commands_the_terminal_of_its_reader(written: io.StringIO) -> None:
    written.seek(0)
    written.truncate()
    table = TableName("public", "t\x1b]0;owned\x07\x9b2J\r")
    try:
        raise ValueFault(table)
    except ValueFault:
        logging.getLogger("sluice.test").exception("%s is\tgone", table)
    text = written.getvalue()
    assert "\tgone\n" in text and "ValueFault" in text
    assert not {letter for letter in text if not letter.isprintable()} - {"\n", "\t"}


class ValueFault(Exception):
    pass


@settings(max_examples=50)
@given(VALUES, st.sampled_from(MADE))
def test_nor_does_what_spark_writes_of_a_failed_task(value: str, make: Callable[[str], Exception]) -> None:
    from pyspark import cloudpickle

    def task(number: int) -> int:
        raise make(value)

    work = session._work(cloudpickle.dumps(task), "load a/b")  # type: ignore[no-untyped-call]
    batch = pa.RecordBatch.from_pydict({"number": pa.array([0], pa.int64())})
    with pytest.raises(Exception) as raised:
        list(work(iter([batch])))
    assert type(raised.value).__name__ == type(make(value)).__name__
    assert CANARY not in "".join(str(raised.getrepr(chain=True, showlocals=False, style="native")))


def test_a_record_that_is_made_of_another_one_stays_as_it_is() -> None:
    """As Airflow makes it."""
    made = logging.makeLogRecord({"name": "sluice.test", "msg": "%s of a", "args": ("one",)})
    assert made.getMessage() == "one of a"


class _Ti:
    try_number = 1

    def __init__(self) -> None:
        self.pushed: dict[str, str] = {}

    def xcom_push(self, key: str, value: str) -> None:
        self.pushed[key] = value


@settings(max_examples=50)
@given(VALUES, st.sampled_from(MADE))
def test_nor_does_airflow_of_a_failed_task(written: io.StringIO, value: str, make: Callable[[str], Exception]) -> None:
    written.seek(0)
    written.truncate()
    ti = _Ti()
    with pytest.raises(AirflowException) as raised, failure.as_airflow({"ti": ti}):  # type: ignore[typeddict-item]
        raise make(value)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__
    assert CANARY not in written.getvalue() + ti.pushed[failure.XCOM_KEY] + str(raised.value)
