"""Rows that a database streams as CSV (`sluice.database.rows.RowFormat.CSV`), as Arrow: every value a text.

An empty field is NULL, a quoted empty one is an empty text.
"""

import io
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

PIECE_BYTES = 4 * 1024 * 1024
"""Bytes of rows that come together, or one row if that is larger."""
_QUOTE, _NEWLINE = ord('"'), ord("\n")


def tables(pieces: Iterable[bytes | memoryview], names: Sequence[str]) -> Iterator[pa.Table]:
    """`pieces`: with a header, cut anywhere."""
    return (parsed(rows, names) for rows in whole_rows(pieces) if rows)


def parsed(rows: bytes, names: Sequence[str]) -> pa.Table:
    """Whole rows without a header."""
    # Names by place: two columns' names may differ by what the parser makes of them.
    places = [str(number) for number in range(len(names))]
    return pa_csv.read_csv(
        pa.py_buffer(rows),
        pa_csv.ReadOptions(use_threads=False, block_size=len(rows) + 1, column_names=places),
        # A row of one column that is NULL is an empty line.
        pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(places, pa.large_string()), null_values=[""], strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    ).rename_columns(list(names))  # fmt: skip


def whole_rows(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """The rows without their header, some whole ones at a time; an empty piece for each empty one."""
    waiting, size, headed, enough = io.BytesIO(), 0, False, PIECE_BYTES
    for piece in pieces:
        if not piece:
            yield b""
            continue
        size += waiting.write(piece)
        if size < enough:
            continue
        text = waiting.getvalue()
        ends = _row_ends(text)
        if not headed and len(ends):
            text, ends, headed = text[ends[0] + 1 :], ends[1:] - ends[0] - 1, True
        end = int(ends[-1]) + 1 if headed and len(ends) else 0
        if end:
            yield text[:end]
        waiting = io.BytesIO()
        size = waiting.write(text[end:])
        # A row that is larger is not looked through again for each of its pieces.
        enough = max(PIECE_BYTES, 2 * size)
    text = waiting.getvalue()
    if not headed and len(ends := _row_ends(text)):
        text = text[int(ends[0]) + 1 :]
    if text:
        yield text


def _row_ends(text: bytes) -> npt.NDArray[np.int64]:
    """The ends of rows: newlines outside of quotes."""
    data = np.frombuffer(text, dtype=np.uint8)
    newlines = np.flatnonzero(data == _NEWLINE)
    quotes = np.flatnonzero(data == _QUOTE)
    outside: npt.NDArray[np.int64] = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    return outside
