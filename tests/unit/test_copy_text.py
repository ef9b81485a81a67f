"""Rows as COPY's text format: any content, and any offset in Arrow's buffers."""

import re

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluice.vendors.postgres.target.stage import copy_text

TEXTS = st.none() | st.text(st.sampled_from("ab\\\t\n\rN.ü\x01"), max_size=6)
CODED = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r"}


def read(text: str) -> list[tuple[str | None, ...]]:
    """The rows as PostgreSQL reads them."""
    assert text == "" or text.endswith("\n")
    return [
        tuple(
            None if value == "\\N" else re.sub(r"\\.", lambda found: CODED[found[0]], value)
            for value in line.split("\t")
        )
        for line in text.split("\n")[:-1]
    ]


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8), st.data())
def test_any_texts_read_back_from_any_part_of_a_table(
    rows: list[tuple[str | None, str | None]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    chunks = [rows[:cut], rows[cut:]]
    columns = {
        f"c{number}": pa.chunked_array([[row[number] for row in chunk] for chunk in chunks], pa.large_string())
        for number in (0, 1)
    }
    begin = data.draw(st.integers(0, len(rows) - 1))
    end = data.draw(st.integers(begin + 1, len(rows)))
    whole = pa.table(columns)
    for table in (whole.slice(begin, end - begin), whole.combine_chunks().slice(begin, end - begin)):
        assert read(bytes(copy_text(table)).decode()) == rows[begin:end]
        alone = table.select(["c0"])
        assert read(bytes(copy_text(alone)).decode()) == [row[:1] for row in rows[begin:end]]
