"""Rows that a database streams as CSV (`sluice.database.rows.RowFormat.CSV`), as Arrow: every value a text."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.csv as pa_csv

PIECE_BYTES = 4 * 1024 * 1024
"""Rows are parsed in pieces of about this size; a row that is larger is one piece."""


def tables(pieces: Iterable[bytes | memoryview], names: Sequence[str]) -> Iterator[pa.Table]:
    """`pieces`: CSV with a header, cut anywhere. An empty field is NULL, a quoted empty one is an empty text."""
    rest = bytearray()
    first = True
    for piece in pieces:
        rest += piece
        if len(rest) < PIECE_BYTES:
            continue
        end = _end_of_rows(rest)
        if end:
            yield _parsed(bytes(rest[:end]), names, header=first)
            first = False
            del rest[:end]
    if rest:
        yield _parsed(bytes(rest), names, header=first)


def _end_of_rows(text: bytearray) -> int:
    """Where the last whole row ends: behind a line end with an even number of quotes before it; 0 for nowhere."""
    quotes = text.count(b'"')
    end = len(text)
    while (at := text.rfind(b"\n", 0, end)) >= 0:
        quotes -= text.count(b'"', at, end)
        if quotes % 2 == 0:
            return at + 1
        end = at
    return 0


def _parsed(text: bytes, names: Sequence[str], *, header: bool) -> pa.Table:
    # Names by place: two columns' names may differ by what the parser makes of them.
    places = [str(number) for number in range(len(names))]
    return pa_csv.read_csv(
        pa.BufferReader(text),
        pa_csv.ReadOptions(
            use_threads=False, block_size=len(text) + 1, column_names=places, skip_rows_after_names=int(header)
        ),
        # A row of one column that is NULL is an empty line.
        pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(places, pa.large_string()), null_values=[""], strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    ).rename_columns(list(names))  # fmt: skip
