"""Rows of an Oracle master as CSV of canonical texts (`sluice.database.rows.RowStream`)."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sluice.database.rows import RowFormat
from sluice.database.session import Session
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.session import native

PIECE_BYTES = 1 << 20
_KEPT_BYTES = 16 << 20


class RowStream:
    """See the protocol."""

    def __init__(self, connection: Session, query: str, row_format: RowFormat, taken: Callable[[], None] | None = None):
        assert row_format is RowFormat.CSV, row_format
        self.rows = 0
        self._session, self._query, self._taken = native(connection), query, taken

    def __iter__(self) -> Iterator[bytes | memoryview]:
        if self._taken is None:
            yield from self._pieces()
            return
        with tempfile.SpooledTemporaryFile(_KEPT_BYTES) as kept:
            for piece in self._pieces():
                kept.write(piece)
                yield b""
            self._taken()
            kept.seek(0)
            while piece := kept.read(PIECE_BYTES):
                yield piece

    def _pieces(self) -> Iterator[bytes]:
        stream = self._session.stream(self._query)
        lines, size = list(map(record, next(stream))), 0
        for rows in stream:
            self.rows += len(rows)
            for row in rows:
                line = record(row)
                lines.append(line)
                size += len(line)
                if size >= PIECE_BYTES:
                    yield "\n".join([*lines, ""]).encode()
                    lines, size = [], 0
        yield "\n".join([*lines, ""]).encode()


def record(row: Sequence[Any]) -> str:
    r"""A line of CSV: an empty field is NULL; all others are in quotes, bytes as `\\x` and hexadecimal digits."""
    return ",".join(map(_field, row))


def _field(value: Any) -> str:
    text = ColumnTexts.shown(value) if value is None or isinstance(value, str | bytes) else str(value)
    return "" if text is None else f'"{text.replace(chr(34), chr(34) * 2)}"'
