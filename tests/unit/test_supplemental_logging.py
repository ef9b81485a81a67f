"""Capture begins only if the master's redo identifies changed rows."""

import json
from typing import Any

import pytest

from sluice.model.names import Naming, TableName
from sluice.redo import supplemental_logging
from tests.errors import raises_code
from tests.unit import redo_vectors

KEY, LOGS_KEY, LOGS_ALL = 2, 14, 17


def seed(*types: int, flags: int = 0, **more: Any) -> dict[str, Any]:
    """A schema checkpoint with one table, whose constraints are of these types."""
    return {
        "users": ["APP"],
        "sys-user": [{"user": 5, "name": "APP"}, {"user": 0, "name": "SYS"}],
        "sys-obj": [
            {"owner": 5, "obj": 7, "name": "Order's", "type": 2, "flags": [flags, 0]},
            {"owner": 0, "obj": 8, "name": "TAB$", "type": 2, "flags": [0, 0]},
            {"owner": 5, "obj": 9, "name": "I", "type": 1, "flags": [0, 0]},
        ],
        "sys-cdef": [{"obj": 7, "con": number, "type": kind} for number, kind in enumerate(types)],
        **more,
    }


def expect(values: dict[str, Any], table: str = "Order's") -> None:
    supplemental_logging.expect(values, lambda found: found == TableName("app", table), Naming())


@pytest.mark.parametrize(
    "values",
    [
        seed(LOGS_ALL),
        seed(KEY, LOGS_KEY),
        seed(KEY, **{"supp-log-db-primary": 1}),
        seed(**{"supp-log-db-all": 1}),
        seed(flags=2),
        seed(flags=128),
    ],
)
def test_logged_and_unreplicated_columns_are_accepted(values: dict[str, Any]) -> None:
    expect(values)


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        (seed(KEY), "PRIMARY KEY"),
        (seed(), "ALL"),
        (seed(LOGS_KEY), "ALL"),
        (seed(**{"supp-log-db-primary": 1}), "ALL"),
    ],
)
def test_unlogged_columns_are_reported_with_the_statement(values: dict[str, Any], columns: str) -> None:
    with raises_code("supplemental-logging-missing") as refused:
        expect(values)
    assert f'ALTER TABLE "APP"."Order\'s" ADD SUPPLEMENTAL LOG DATA ({columns}) COLUMNS' in str(refused.value)
    expect(values, "other")


def test_a_real_schema_checkpoint_shows_the_logging() -> None:
    file = redo_vectors.required() / "redo" / "TEST-chkpt-2266634.json"
    real = json.loads(file.read_text())

    def replicated(table: TableName) -> bool:
        return table.schema == "olr_test"

    supplemental_logging.expect(real, replicated, Naming())
    bare = {**real, "sys-cdef": [each for each in real["sys-cdef"] if each["type"] != LOGS_ALL]}
    with raises_code("supplemental-logging-missing", match="OLR_TEST"):
        supplemental_logging.expect(bare, replicated, Naming())
