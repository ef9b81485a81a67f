"""Capture begins only if OpenLogReplicator reads all replicated tables."""

import json
from typing import Any

import pytest

from sluice.model.names import Naming, TableName
from sluice.redo import unread_tables
from tests.errors import raises_code
from tests.unit import redo_vectors

OBJECTS, NESTED, PARTITIONED, IOT, IOT_OVERFLOWS, OVERFLOW, HOLDS_NESTED = (1 << bit for bit in (0, 2, 5, 6, 7, 9, 13))
MAPPING, UNMADE = 1 << 29, 1 << 34


def seed(kind: int = 0, flags: int = 0, *, of_object: int = 0, stored: int = 0) -> dict[str, Any]:
    """A schema checkpoint with one table."""
    return {
        "users": ["APP"],
        "sys-user": [{"user": 5, "name": "APP"}, {"user": 0, "name": "SYS"}],
        "sys-obj": [
            {"owner": 5, "obj": 7, "name": "ORDERS", "type": 2, "flags": [of_object, 0]},
            {"owner": 0, "obj": 8, "name": "TAB$", "type": 2, "flags": [0, 0]},
            {"owner": 5, "obj": 9, "name": "I", "type": 1, "flags": [0, 0]},
        ],
        "sys-tab": [{"obj": 7, "property": [kind, 0], "flags": [flags, 0]}, {"obj": 8, "property": [IOT, 0]}],
        "sys-deferredstg": [{"obj": 7, "flags-stg": [stored, 0]}],
    }


def found(values: dict[str, Any], table: str = "orders") -> list[str]:
    return list(unread_tables.unread(values, lambda each: each == TableName("app", table), Naming()))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (seed(IOT), "is index-organized"),
        (seed(IOT_OVERFLOWS | 1 << 29), "is index-organized"),
        (seed(0, MAPPING), "is index-organized"),
        (seed(OBJECTS), "is a table of objects"),
        (seed(NESTED), "has nested tables"),
        (seed(0, UNMADE, stored=4), "is compressed"),
    ],
)
def test_a_table_that_is_not_read_is_refused_with_the_reason(values: dict[str, Any], why: str) -> None:
    (said,) = found(values)
    assert said.startswith(f'"APP"."ORDERS" {why}')
    with raises_code("tables-not-read", match="replicate: false"):
        unread_tables.expect(values, lambda _: True, Naming())
    assert found(values, "other") == [], "nobody wants it"


@pytest.mark.parametrize(
    "values",
    [
        seed(),
        seed(0, UNMADE, stored=8),
        seed(PARTITIONED, UNMADE, stored=4),
        seed(0, 0, stored=4),
        seed(IOT | OVERFLOW),
        seed(HOLDS_NESTED),
        seed(IOT, of_object=2),
        seed(IOT, of_object=128),
    ],
)
def test_tables_that_are_read_or_parts_of_others_are_accepted(values: dict[str, Any]) -> None:
    assert found(values) == []


def test_a_real_schema_checkpoint_has_none() -> None:
    real = json.loads((redo_vectors.required() / "redo" / "TEST-chkpt-2266634.json").read_text())
    assert list(unread_tables.unread(real, lambda _: True, Naming())) == []
