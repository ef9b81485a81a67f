"""Updates that change a key and leave columns out, while tables are loaded: each half is decided by itself."""

import numpy as np
import pyarrow as pa
import pytest

from sluice.apply import net_changes
from sluice.apply.load_filter import RowIncomplete, expect_complete_rows
from sluice.database import xml_images
from sluice.database.items import ITEMS
from sluice.model.content import format_partial, format_row
from sluice.model.names import TableName

T = TableName("s", "t")
COLUMNS = ("a", "b", "v")
PARTIAL_ONE = format_partial({"a": "2", "b": "x"}, COLUMNS), format_partial({"a": "1"}, COLUMNS)
PARTIAL_OTHER = format_partial({"a": "4", "v": "y"}, COLUMNS), format_partial({"a": "3", "v": "z"}, COLUMNS)
WHOLE = format_row([("a", "6"), ("b", None), ("v", "n")]), format_row([("a", "5")])


def events(*updates: tuple[str, str]) -> net_changes.KeyEvents:
    rows = [
        (number, number, "s", "t", None, "UPDATE", content, oldcontent)
        for number, (content, oldcontent) in enumerate(updates, start=1)
    ]
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), ITEMS, strict=True)]
    return net_changes.events(pa.table(columns, ITEMS), ("a",), xml_images)


def test_each_half_has_its_key_whatever_else_is_left_out() -> None:
    found = events(PARTIAL_ONE, PARTIAL_OTHER, WHOLE)
    assert found.guid.to_pylist() == ["1", "2", "3", "4", "5", "6"]
    assert found.before.tolist() == [True, False] * 3


def test_a_row_that_comes_from_a_block_without_it_must_be_whole() -> None:
    arrives = np.array([False, True])
    expect_complete_rows(events(WHOLE), T, arrives)
    with pytest.raises(RowIncomplete, match=r"'2'.*SUPPLEMENTAL LOG DATA \(ALL\)"):
        expect_complete_rows(events(PARTIAL_ONE), T, arrives)


@pytest.mark.parametrize("kept", [[True, True], [True, False], [False, False]])
def test_a_row_that_moves_within_what_the_slave_has_or_leaves_it_need_not_be(kept: list[bool]) -> None:
    expect_complete_rows(events(PARTIAL_ONE), T, np.array(kept))
