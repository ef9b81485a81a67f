"""Transforms a stream of CSV from the master, whose pieces may end within a row."""

import io
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.csv as csv

from sluice.database import csv_rows
from sluice.transform.table_transform import TableTransform


class TransformedRows:
    """Yields the slave's rows, with a header, in `RowFormat.CSV`; an empty piece for each empty one. Iterable once."""

    def __init__(self, pieces: Iterable[bytes | memoryview], names: Sequence[str], transform: TableTransform):
        """`pieces`: the master's rows of the columns `names`, with a header."""
        self.rows = 0
        """How many rows the slave gets; known after the last piece."""
        self.columns = [column.name for column in transform.shape.replicated]
        self._pieces = pieces
        self._names = names
        self._transform = transform

    def __iter__(self) -> Iterator[bytes]:
        """Raises `RowNotTransformed`."""
        yield b",".join(map(_quoted, self.columns)) + b"\n"
        for rows in csv_rows.whole_rows(self._pieces):
            yield self._written(rows) if rows else b""

    def _written(self, rows: bytes) -> bytes:
        read = [column.combine_chunks() for column in csv_rows.parsed(rows, self._names).columns]
        transformed = self._transform.rows(self._names, read)
        columns = transformed.columns
        self.rows += len(transformed.made_of)
        labels = [f"c{index}" for index in range(len(self.columns))]
        csv_table = pa.table([columns[transformed.names.index(name)] for name in self.columns], names=labels)
        out = io.BytesIO()
        csv.write_csv(csv_table, out, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
        return out.getvalue()


def _quoted(name: str) -> bytes:
    return b'"' + name.replace('"', '""').encode() + b'"'
