"""A stored position is parsed by the vendor that took it."""

import json

import pytest

from sluice.database import registry
from sluice.database.registry import UnknownVendor
from sluice.vendors.oracle.queue_position import Incarnation, QueuePosition
from sluice.vendors.postgres.snapshot_position import SnapshotPosition

TEXT = SnapshotPosition.of_snapshot("811:815:812,813", 1, 2, "2026-01-01T00:00:00+00:00", next_xid=820).text()


def test_a_text_that_names_no_vendor_is_postgresqls() -> None:
    assert "vendor" not in json.loads(TEXT)
    assert registry.parse_position(TEXT).text() == TEXT


def test_a_text_that_names_its_vendor_is_read_by_it() -> None:
    assert registry.parse_position(json.dumps({**json.loads(TEXT), "vendor": "postgres"})) == SnapshotPosition.parse(
        TEXT
    )
    taken = QueuePosition(7, 9, frozenset({5}), frozenset({6}), Incarnation(1, "", 1, 0))
    assert registry.parse_position(taken.text()) == taken
    with pytest.raises(UnknownVendor, match=r"'dbase' is no vendor Sluice knows"):
        registry.parse_position(json.dumps({"vendor": "dbase", "scn": 7}))


@pytest.mark.parametrize("text", ["", "7", "{}", '{"snapshot": "1:2:"}', "[]"])
def test_other_texts_are_no_positions(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        registry.parse_position(text)
