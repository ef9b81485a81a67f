"""Rows on their way from the master to the slave, as CSV in pieces that are cut anywhere."""

import io
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as csv

from sluice.transform.engine import TEXT
from sluice.transform.table_transform import TableTransform

ROWS_BYTES = 4 * 1024 * 1024
"""Bytes that are transformed together, or one row where that is larger."""
_QUOTE, _NEWLINE = ord('"'), ord("\n")


class TransformedRows:
    """The slave's rows, with a header, in `RowFormat.CSV`; an empty piece for each empty one. To be iterated once."""

    def __init__(self, pieces: Iterable[bytes | memoryview], names: Sequence[str], transform: TableTransform):
        """`pieces`: the master's, with a header, of the columns `names`."""
        self.rows = 0
        """How many the slave gets, once all pieces were taken."""
        self.columns = [column.name for column in transform.shape.replicated]
        self._pieces = pieces
        self._names = names
        self._transform = transform

    def __iter__(self) -> Iterator[bytes]:
        """Raises `RowNotTransformed`."""
        yield b",".join(map(_quoted, self.columns)) + b"\n"
        for rows in _whole_rows(self._pieces):
            yield self._written(rows) if rows else b""

    def _written(self, rows: bytes) -> bytes:
        read = _read(rows, len(self._names))
        found = self._transform.rows(self._names, read)
        columns = found.of_slave()
        self.rows += len(columns[0])
        made = pa.table([columns[found.names.index(name)] for name in self.columns], names=_labels(len(self.columns)))
        out = io.BytesIO()
        csv.write_csv(made, out, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
        return out.getvalue()


def _read(rows: bytes, width: int) -> list[pa.Array]:
    """Whole rows without a header, one array of texts a column."""
    labels = _labels(width)
    table = csv.read_csv(
        pa.py_buffer(rows),
        csv.ReadOptions(use_threads=False, block_size=len(rows) + 1, column_names=labels),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(labels, TEXT),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [column.combine_chunks() for column in table.columns]


def _labels(width: int) -> list[str]:
    return [f"c{place}" for place in range(width)]


def _whole_rows(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """The rows without their header, some whole ones at a time; an empty piece for each empty one."""
    waiting, size, headed, enough = io.BytesIO(), 0, False, ROWS_BYTES
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
        enough = max(ROWS_BYTES, 2 * size)
    text = waiting.getvalue()
    if not headed and len(ends := _row_ends(text)):
        text = text[int(ends[0]) + 1 :]
    if text:
        yield text


def _row_ends(text: bytes) -> npt.NDArray[np.int64]:
    """Where rows end: at newlines outside of quotes."""
    data = np.frombuffer(text, dtype=np.uint8)
    newlines = np.flatnonzero(data == _NEWLINE)
    quotes = np.flatnonzero(data == _QUOTE)
    outside: npt.NDArray[np.int64] = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    return outside


def _quoted(name: str) -> bytes:
    return b'"' + name.replace('"', '""').encode() + b'"'
