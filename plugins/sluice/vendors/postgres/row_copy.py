"""Copies rows from and to PostgreSQL tables by COPY, without parsing them.

The server sends one message a row. The row iterator of the driver would take longer than the copy itself, so messages
are read from libpq directly and joined to large pieces. Memory holds one piece, or one row if that is larger.
"""

import io
import re
import select
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from psycopg import pq
from psycopg.errors import error_from_result

from sluice.database.rows import KeyOrder, RowFormat
from sluice.database.session import Session
from sluice.model.blocks import Block
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.postgres.connection import classified, native, quoted

PIECE_BYTES = 128 * 1024
"""Messages are joined up to this size."""
LARGE_BYTES = 1024 * 1024
"""A larger message is passed on alone, in slices."""
BEAT_SECONDS = 1.0
"""After so long without a row a stream yields an empty piece."""
KEPT_BYTES = 16 * 1024 * 1024
"""Rows that are read completely before the first is written are kept in memory up to this size."""
_OPTIONS = {
    RowFormat.CSV: "(FORMAT csv, HEADER)",
    RowFormat.COPY_TEXT: "(FORMAT text)",
    RowFormat.COPY_BINARY: "(FORMAT binary)",
}

_STABLE = frozenset((
    "bigint", "bit", "bit varying", "boolean", "box", "bytea", '"char"', "character", "character varying", "cidr",
    "circle", "date", "daterange", "double precision", "inet", "int4multirange", "int4range", "int8multirange",
    "int8range", "integer", "interval", "json", "jsonb", "line", "lseg", "macaddr", "macaddr8", "name",
    "nummultirange", "numrange", "numeric", "path", "pg_lsn", "point", "polygon", "real", "smallint", "text",
    "time with time zone", "time without time zone", "timestamp with time zone", "timestamp without time zone",
    "tsmultirange", "tsrange", "tstzmultirange", "tstzrange", "uuid", "xid8",
))  # fmt: skip
"""Types whose binary form is the same in every database. The binary form of arrays, composites and ranges has oids of
types, which for user-defined types differ between databases."""


def formats(columns: Sequence[Column], target: TableShape) -> Sequence[RowFormat]:
    """The formats in which these columns of the master can be written to the same columns of `target`, best first."""
    binary = all(stable(column.type) and target.column(column.name).type == column.type for column in columns)
    others = [RowFormat.COPY_TEXT, RowFormat.CSV]
    return [RowFormat.COPY_BINARY, *others] if binary else others


def stable(type_name: str) -> bool:
    """Whether a type, as `format_type` writes it, has the same binary form in every database.

    The name of a user-defined type has its schema, so it is not in the list.
    """
    plain = re.sub(r"\(\s*-?\d+(\s*,\s*-?\d+)?\s*\)", "", type_name).removesuffix("[]")
    plain = "interval" if plain.startswith("interval ") else plain
    return plain in _STABLE


class RowStream:
    """See `sluice.database.rows.RowStream`. The connection must be in a transaction.

    CSV quotes empty texts, so they differ from NULL.
    """

    def __init__(self, connection: Session, query: str, row_format: RowFormat, taken: Callable[[], None] | None = None):
        self.rows = 0
        self._pieces = _pieces(connection, f"COPY ({query}) TO STDOUT {_OPTIONS[row_format]}")
        if taken is not None:
            self._pieces = _kept(self._pieces, taken)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        self.rows = yield from self._pieces


def write(
    connection: Session,
    table: TableName,
    columns: Sequence[str],
    pieces: Iterable[bytes | memoryview],
    row_format: RowFormat,
) -> int:
    """Writes rows into `columns` of `table`, in the caller's transaction. Returns how many.

    An error of `pieces` ends the COPY and is raised unchanged. Raises psycopg's errors.
    """
    into_columns = f"({', '.join(map(quoted, columns))}) " if columns else ""
    statement = f"COPY {quoted(table.schema, table.name)} {into_columns}FROM STDIN {_OPTIONS[row_format]}"
    with native(connection).cursor() as cursor:
        with cursor.copy(statement.encode()) as into:
            for piece in pieces:
                if piece:
                    into.write(piece)
        return cursor.rowcount


def clear(connection: Session, order: KeyOrder, block: Block) -> None:
    """Deletes the slave's rows of a block, in the transaction that stores it, so that readers never miss them.

    Only where the slave orders keys as the master does (`KeyOrder.same_everywhere`), or for a block of a complete
    table.
    """
    connection.execute(f"DELETE FROM {order.source} WHERE {order.within(block.lo, block.hi)}".encode())


def _kept(
    pieces: Generator[bytes | memoryview, None, int], taken: Callable[[], None]
) -> Generator[bytes | memoryview, None, int]:
    """Yields the pieces after the last of them was read; keeps large ones on disk. Returns the number of rows."""
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
    """Yields the data of a COPY TO STDOUT in pieces of about `PIECE_BYTES`; an empty one for each second of waiting.

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
        # Messages are copied at once; to keep thousands of them for one join would take twice as long.
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
                # A large row: joined with others and sent as one piece it would take three times the memory.
                yield joined.getvalue()
                joined = io.BytesIO()
                put, size = joined.write, 0
                for start in range(0, length, LARGE_BYTES):
                    yield data[start : start + LARGE_BYTES]
            elif length == 0:
                # No complete message yet.
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
