"""Rows on their way to the slave: any content, cut into pieces anywhere."""

import pickle
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.database import csv_rows
from sluice.model.transformation import Computed, Constant, Excluded, Renamed
from sluice.transform import row_stream
from sluice.transform.table_transform import RowNotTransformed
from tests.examples import examples
from tests.unit.transforming import bound, rows, shape

TEXTS = st.one_of(
    st.none(), st.sampled_from(["", '"', '""', "\n", "\r\n", ",", "\\.", "NULL", "é", '",\n"']), st.text(max_size=8)
).map(lambda text: text if text is None else text.replace("\x00", ""))


def written(header: list[str], given: list[list[str | None]]) -> bytes:
    """Rows as the master streams them: an empty field is NULL, an empty text is quoted."""
    lines = [",".join("" if value is None else '"' + value.replace('"', '""') + '"' for value in row) for row in given]
    return "".join(f"{line}\n" for line in [",".join(header), *lines]).encode()


def cut(text: bytes, places: list[int]) -> Iterator[bytes]:
    begin = 0
    for place in sorted(place % (len(text) + 1) for place in places):
        yield text[begin:place]
        begin = place
    yield text[begin:]


@pytest.mark.long
@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=8), st.lists(st.integers(0, 10_000), max_size=5))
def test_rows_arrive_as_they_are_wherever_their_pieces_are_cut(
    given: list[tuple[str | None, ...]], places: list[int]
) -> None:
    small, csv_rows.PIECE_BYTES = csv_rows.PIECE_BYTES, 7
    try:
        transform = bound(shape(a="text", b="text", c="text"), b=Excluded(), a=Renamed("A"), d=Constant("x"))
        text = written(["a", "b", "c"], [list(row) for row in given])
        found = b"".join(row_stream.TransformedRows(cut(text, places), ["a", "b", "c"], transform))
    finally:
        csv_rows.PIECE_BYTES = small
    expected = [[row["A"], row["c"], row["d"]] for row in rows(transform, *given)] if given else []
    assert found.splitlines()[0] == b'"A","c","d"'
    assert parsed(found) == expected


def parsed(text: bytes) -> list[list[str | None]]:
    """Rows as PostgreSQL reads them: the standard library cannot distinguish an empty text from NULL."""
    found: list[list[str | None]] = []
    row: list[str | None] = []
    at, line = 0, text.decode()
    while at < len(line):
        if line[at] == '"':
            end = at + 1
            while line[end] != '"' or line[end + 1 : end + 2] == '"':
                end += 2 if line[end] == '"' else 1
            row.append(line[at + 1 : end].replace('""', '"'))
            at = end + 1
        else:
            row.append(None)
        if line[at] == "\n":
            found.append(row)
            row = []
        at += 1
    return found[1:]


def test_a_table_of_one_column_keeps_its_rows_of_nothing() -> None:
    transform = bound(shape(a="text"), a=Renamed("b"))
    text = written(["a"], [[None], [""], ["x"], [None]])
    assert parsed(b"".join(row_stream.TransformedRows([text], ["a"], transform))) == [[None], [""], ["x"], [None]]


@pytest.mark.long
def test_a_large_value_passes_and_an_empty_piece_stays_one() -> None:
    transform = bound(shape(a="text", n="integer"), "n = 1")
    text = written(["a", "n"], [["x" * (5 * csv_rows.PIECE_BYTES), "1"], ["y", "2"]])
    pieces = [text[place : place + 100_000] for place in range(0, len(text), 100_000)]
    pieces.insert(3, b"")
    found = list(row_stream.TransformedRows(pieces, ["a", "n"], transform))
    assert b"" in found
    assert parsed(b"".join(found)) == [["x" * (5 * csv_rows.PIECE_BYTES), "1"]]


def test_a_row_that_cannot_be_computed_is_named_without_its_values() -> None:
    transform = bound(shape(id="key integer", card="text"), n=Computed("CAST(card AS INTEGER)"))
    text = written(["id", "card"], [["1", "7"], ["2", "4111-1111"], ["3", "x"]])
    with pytest.raises(RowNotTransformed) as raised:
        list(row_stream.TransformedRows([text], ["id", "card"], transform))
    assert "id = '2'" in str(raised.value)
    assert "INT32" in str(raised.value)
    assert "4111" not in str(raised.value)


def test_a_transformation_travels_to_another_process() -> None:
    transform = bound(shape(id="key integer", n="integer"), "n > 5", n=Renamed("m"), twice=Computed("n * 2"))
    there = pickle.loads(pickle.dumps(transform))
    assert rows(there, ("1", "7"), ("2", "5")) == [{"id": "1", "m": "7", "twice": "14"}]
