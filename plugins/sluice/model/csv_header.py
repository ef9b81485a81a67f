"""The header of rows in CSV."""

import csv
import io
import itertools
from collections.abc import Iterable, Iterator

_QUOTE, _NEWLINE = b'"\n'


def header(pieces: Iterable[bytes]) -> tuple[list[str], Iterator[bytes]]:
    """The column names in the header of CSV, and all pieces of the CSV. Raises `ValueError` without a header."""
    taken = b""
    rest = iter(pieces)
    while True:
        inside = False
        for place, byte in enumerate(taken):
            inside ^= byte == _QUOTE
            if byte == _NEWLINE and not inside:
                line = taken[:place].decode()
                names = next(csv.reader(io.StringIO(line, newline=""), strict=True), [])
                return names, itertools.chain([taken], rest)
        piece = next(rest, None)
        if piece is None:
            raise ValueError("the rows have no header")
        taken += piece
