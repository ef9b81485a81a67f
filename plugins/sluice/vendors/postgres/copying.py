"""Rows from one PostgreSQL table into another: COPY to COPY, passed through without looking inside.

The server sends one message a row. Asking the driver's row iterator for each would cost more than
the copy itself, so messages are taken from libpq directly and handed on in large pieces. Memory
holds one piece, or one row where a row is larger.
"""

import csv
import io
import itertools
import re
import select
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from psycopg import pq
from psycopg.errors import error_from_result

from sluice.database.session import Session
from sluice.domain.blocks import Block
from sluice.domain.names import TableName
from sluice.domain.shape import Column, TableShape
from sluice.vendors.postgres.connection import classified, native, quoted
from sluice.vendors.postgres.ranges import KeyOrder, select_list

PIECE_BYTES = 128 * 1024
"""Messages are joined up to this size before they are handed on."""
LARGE_BYTES = 1024 * 1024
"""A message above this size is handed on in slices of its own."""
BEAT_SECONDS = 1.0
KEPT_BYTES = 16 * 1024 * 1024
"""Rows that are all taken before the first is written are in memory up to this size."""
_CSV = "(FORMAT csv, HEADER)"
_QUOTE, _NEWLINE = b'"\n'

_STABLE = frozenset((
    "bigint", "bit", "bit varying", "boolean", "box", "bytea", '"char"', "character", "character varying", "cidr",
    "circle", "date", "daterange", "double precision", "inet", "int4multirange", "int4range", "int8multirange",
    "int8range", "integer", "interval", "json", "jsonb", "line", "lseg", "macaddr", "macaddr8", "name",
    "nummultirange", "numrange", "numeric", "path", "pg_lsn", "point", "polygon", "real", "smallint", "text",
    "time with time zone", "time without time zone", "timestamp with time zone", "timestamp without time zone",
    "tsmultirange", "tsrange", "tstzmultirange", "tstzrange", "uuid", "xid8",
))  # fmt: skip
"""Types whose binary form is the same in every database. The binary form of arrays, composites
and ranges names types by oid: those of a database's own types differ from one to the next."""


@dataclass(frozen=True)
class Copied:
    """What one copy moved."""

    rows: int
    bytes: int


def binary(columns: Sequence[Column], target: TableShape) -> bool:
    """Whether these columns of the master may travel in binary to the same columns of `target`."""
    return all(stable(column.type) and target.column(column.name).type == column.type for column in columns)


def stable(type_name: str) -> bool:
    """Whether a type, as `format_type` writes it, has one binary form everywhere.

    A type of a database's own carries its schema in the name, and so is none of those known here.
    """
    plain = re.sub(r"\(\s*-?\d+(\s*,\s*-?\d+)?\s*\)", "", type_name).removesuffix("[]")
    plain = "interval" if plain.startswith("interval ") else plain
    return plain in _STABLE


def copy(
    source: Session,
    target: Session,
    query: str,
    table: TableShape,
    columns: Sequence[Column],
    *,
    in_binary: bool,
    beat: Callable[[], None] = lambda: None,
    taken: Callable[[], None] | None = None,
) -> Copied:
    """Copies the rows of `query` into `columns` of `table`; both connections must be in a transaction.

    With `taken` all rows are taken from the source before the first is written, and it is called between the two.

    `query` selects the columns in this order. `beat` is called often (each piece, each second of
    waiting) and may raise to stop. After any error the source connection may be in the middle of a
    result: close it.
    """
    options = "(FORMAT binary)" if in_binary else "(FORMAT text)"
    into_columns = f"({select_list(columns)}) " if columns else ""
    statement = f"COPY {quoted(table.table.schema, table.table.name)} {into_columns}FROM STDIN {options}"
    size = 0
    pieces = _pieces(source, f"COPY ({query}) TO STDOUT {options}")
    if taken is not None:
        pieces = _kept(pieces, taken)
    with native(target).cursor() as cursor:
        with cursor.copy(statement.encode()) as into:
            while (piece := next(pieces, None)) is not None:
                if piece:
                    into.write(piece)
                    size += len(piece)
                beat()
        return Copied(cursor.rowcount, size)


class CopyOut:
    """The rows of a query as CSV with a header, in pieces; `rows` is their number once all were taken.

    A NULL is empty and an empty text is quoted, so that every value travels exactly. The connection must be in a
    transaction; after an error it may be in the middle of a result: close it. Pieces are empty where a second passed
    without any. With `taken` all rows are taken before the first is given, and it is called between the two.
    """

    def __init__(self, connection: Session, query: str, taken: Callable[[], None] | None = None):
        self.rows = 0
        self._pieces = _pieces(connection, f"COPY ({query}) TO STDOUT {_CSV}")
        if taken is not None:
            self._pieces = _kept(self._pieces, taken)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        self.rows = yield from self._pieces


def copy_in(connection: Session, table: TableName, columns: Sequence[str], pieces: Iterable[bytes]) -> int:
    """Writes CSV with a header into `columns` of `table`, in the caller's transaction; the number of rows.

    What `pieces` raises ends the COPY and comes out as it is. Raises psycopg's errors.
    """
    into_columns = f"({', '.join(map(quoted, columns))}) " if columns else ""
    with native(connection).cursor() as cursor:
        with cursor.copy(f"COPY {quoted(table.schema, table.name)} {into_columns}FROM STDIN {_CSV}".encode()) as into:
            for piece in pieces:
                into.write(piece)
        return cursor.rowcount


def header(pieces: Iterable[bytes]) -> tuple[list[str], Iterator[bytes]]:
    """The column names that CSV begins with, and all its pieces again. Raises `ValueError` where there is no header."""
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


def clear(connection: Session, order: KeyOrder, block: Block) -> None:
    """Deletes the slave's rows of a block, in the transaction that stores it: readers never miss them.

    Only where the slave orders keys as the master does (`KeyOrder.same_everywhere`), or for a
    block that is a whole table.
    """
    connection.execute(f"DELETE FROM {order.source} WHERE {order.within(block.lo, block.hi)}".encode())


def _kept(
    pieces: Generator[bytes | memoryview, None, int], taken: Callable[[], None]
) -> Generator[bytes | memoryview, None, int]:
    """All pieces, once the last of them was taken; on disk where they are large. Returns the number of rows."""
    with tempfile.SpooledTemporaryFile(KEPT_BYTES) as kept:
        while True:
            try:
                kept.write(next(pieces))
            except StopIteration as end:
                rows: int = end.value
                break
            yield b""
        taken()
        kept.seek(0)
        while piece := kept.read(PIECE_BYTES):
            yield piece
        return rows


def _pieces(session: Session, statement: str) -> Generator[bytes | memoryview, None, int]:
    """The data of a COPY TO STDOUT, in pieces of about `PIECE_BYTES`; an empty one for each second of waiting.

    Returns the number of rows.
    """
    connection = native(session).pgconn
    with classified(session):
        begun = connection.exec_(statement.encode())
        if begun.status != pq.ExecStatus.COPY_OUT:
            raise error_from_result(begun, encoding="utf-8")
        take = connection.get_copy_data
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN)
        # Each message is copied and let go at once: thousands of them held for one join cost twice as much.
        joined = io.BytesIO()
        put = joined.write
        size = 0
        while True:
            length, data = take(1)
            if 0 < length <= LARGE_BYTES:
                put(data)
                size += length
                if size >= PIECE_BYTES:
                    yield joined.getvalue()
                    joined = io.BytesIO()
                    put, size = joined.write, 0
            elif length > 0:
                # A large row: joined with others, and sent as one, it would be in memory three times more.
                yield joined.getvalue()
                joined = io.BytesIO()
                put, size = joined.write, 0
                for start in range(0, length, LARGE_BYTES):
                    yield data[start : start + LARGE_BYTES]
            elif length == 0:
                # Nothing complete yet: what arrives next may be the rest of a large row.
                if not poll.poll(BEAT_SECONDS * 1000):
                    yield b""
                connection.consume_input()
            else:
                break
        if size:
            yield joined.getvalue()
        rows = 0
        while (result := connection.get_result()) is not None:
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise error_from_result(result, encoding="utf-8")
            rows = result.command_tuples or 0
    return rows
