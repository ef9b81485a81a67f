"""Runs queries of people (`sluice.database.broadcasts.Queries`).

A cursor is declared for the statement, in a transaction that can only read: PostgreSQL then accepts one query and
nothing else. The statement is sent by the extended protocol, which accepts no second statement after a semicolon.
"""

from collections.abc import Callable

import psycopg

from sluice.database.session import Session
from sluice.model.broadcast import Row
from sluice.vendors.postgres.connection import literal, native


def run(
    connection: Session, statement: str, most: int, entered: Callable[[], None] | None = None, snapshot: str = ""
) -> tuple[Row, list[Row]]:
    """See `Queries`. Raises psycopg's errors."""
    with connection.transaction():
        connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        if snapshot:
            connection.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}".encode())
        # Reading fixes the snapshot, and that nothing can make the transaction write.
        connection.execute(b"SELECT")
        if entered is not None:
            entered()
        declared = f"DECLARE sluice_query NO SCROLL CURSOR FOR {statement}"
        psycopg.RawCursor(native(connection)).execute(declared.encode(), binary=True)
        result = native(connection).execute(f"FETCH {most + 1} FROM sluice_query".encode()).pgresult
        assert result is not None
        columns = tuple(_text(result.fname(column)) for column in range(result.nfields))
        rows = [
            tuple(_text(result.get_value(row, column)) for column in range(result.nfields))
            for row in range(result.ntuples)
        ]
    return columns, rows


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
