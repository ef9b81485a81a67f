"""Former rows, computed from later rows and the changes in between."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.database import csv_rows, xml_images
from sluice.database.changes import WaitingChange
from sluice.feed.table_rows import Version, taken_back
from sluice.model.content import format_partial, format_row
from sluice.model.names import TableName
from tests.errors import raises_code

TABLE = TableName("public", "t")
NAMES = ("k", "v")


def content(version: Version) -> str:
    return format_row(zip(NAMES, version, strict=True))


def changed_parts(old: Version, new: Version) -> str:
    """OLDCONTENT of an UPDATE: the key, and the changed values."""
    pairs = zip(NAMES, old, new, strict=True)
    return format_row([(name, was) for name, was, now in pairs if name == "k" or was != now])


def quoted(value: str | None) -> str:
    return "" if value is None else '"' + value.replace('"', '""') + '"'


texts = st.sampled_from([None, "", "1", "2", "3", "<]]>", "\x01"])
versions = st.tuples(texts, texts)


@given(st.lists(versions, max_size=6), st.lists(st.tuples(st.integers(0, 9), versions), max_size=12))
def test_any_changes_can_be_undone(before: list[Version], steps: list[tuple[int, Version]]) -> None:
    rows = list(before)
    changes: list[WaitingChange] = []
    for choice, version in steps:
        at = choice % (len(rows) + 1)
        if at == len(rows):
            rows.append(version)
            changes.append(("INSERT", content(version), None))
        elif choice < 5:
            changes.append(("DELETE", None, content(rows.pop(at))))
        else:
            changes.append(("UPDATE", content(version), changed_parts(rows[at], version)))
            rows[at] = version
    found = taken_back(changes, NAMES, xml_images, TABLE)
    assert not found.gone - Counter(rows)
    assert Counter(rows) - found.gone + Counter(found.back) == Counter(before)


@pytest.mark.parametrize("action", ["TRUNCATE", "DELETE WHERE", "ALTER", "DROP"])
def test_changes_without_rows_cannot_be_undone(action: str) -> None:
    with raises_code("rows-not-reconstructible", match=rf"public\.t was changed by {action}"):
        taken_back([("INSERT", content(("1", "x")), None), (action, None, None)], NAMES, xml_images, TABLE)


def test_a_partly_known_row_cannot_be_undone() -> None:
    old = format_partial({"k": "1"}, ["k", "v"])
    with raises_code("rows-not-reconstructible", match="UPDATE"):
        taken_back([("UPDATE", content(("1", "x")), old)], NAMES, xml_images, TABLE)


def test_a_row_with_other_columns_cannot_be_undone() -> None:
    with raises_code("rows-not-reconstructible", match="ALTER"):
        taken_back([("DELETE", None, format_row([("k", "1")]))], NAMES, xml_images, TABLE)


@given(st.lists(st.tuples(st.sampled_from([None, "", "a\nb", 'q"', ",", "\\.", "ä"]), texts)), st.integers(1, 9))
def test_rows_of_csv_are_what_they_were_wherever_they_are_cut(rows: list[Version], step: int) -> None:
    head = '"k\nk",v\n'
    text = (head + "".join(",".join(map(quoted, row)) + "\n" for row in rows)).encode()
    pieces = [text[at : at + step] for at in range(0, len(text), step)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_rows, "PIECE_BYTES", 8)
        found = [tuple(row.values()) for table in csv_rows.tables(pieces, NAMES) for row in table.to_pylist()]
    assert found == rows
