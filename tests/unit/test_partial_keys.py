"""Updates that change a key and leave columns out, while tables are loaded: each half is decided separately."""

import numpy as np
import pyarrow as pa
import pytest

from sluice.apply import net_changes
from sluice.apply.load_filter import RowIncomplete, expect_complete_rows
from sluice.apply.slave_changes import SlaveChanges
from sluice.database import xml_images
from sluice.database.items import ITEMS
from sluice.database.row_images import MixedShapes
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


@pytest.mark.parametrize("pairs", [1, 40], ids=["few", "many"])
def test_changes_of_a_key_under_two_definitions_are_kept_by_halves_as_the_blocks_say(pairs: int) -> None:
    """Both are replayed on the slave, without what the filter of blocks leaves out."""

    def update(old: int, more: list[tuple[str, str | None]]) -> tuple[str, str]:
        return format_row([("a", str(old + 1000)), *more]), format_row([("a", str(old))])

    updates = [
        each
        for old in range(0, 2 * pairs, 2)
        for each in (update(old, [("b", "x")]), update(old + 1, [("b", "x"), ("v", "y")]))
    ]
    found = events(*updates)
    assert found.guid.to_pylist() == [text for old in range(2 * pairs) for text in (str(old), str(old + 1000))]
    kept = np.tile([True, False, False, True], pairs)  # The first of two leaves a block, the second one comes.
    chosen = SlaveChanges(found, None, kept)
    with pytest.raises(MixedShapes):
        chosen.net(compare=False, safe=False)
    items = chosen.items().select(["guid", "action", "content", "oldcontent"]).to_pylist()
    assert [(item["action"], item["guid"]) for item in items] == [
        each for old in range(0, 2 * pairs, 2) for each in (("DELETE", str(old)), ("INSERT", str(old + 1001)))
    ]
    assert all((item["content"] is None) == (item["action"] == "DELETE") for item in items)
    assert [item["content"] for item in items[1::2]] == [content for content, _ in updates[1::2]]
