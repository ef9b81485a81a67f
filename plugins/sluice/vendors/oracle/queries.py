"""Runs queries of people (`sluice.database.broadcasts.Queries`): one statement that begins like a query, in a
transaction that can only read."""

import re
from collections.abc import Callable

from sluice.database.errors import StatementFailed
from sluice.database.session import Session
from sluice.model.broadcast import Row
from sluice.vendors.oracle.session import native

_QUERY = re.compile(r"\s*\(*\s*(SELECT|WITH)\b", re.IGNORECASE)


def run(
    connection: Session, statement: str, most: int, entered: Callable[[], None] | None = None, snapshot: str = ""
) -> tuple[Row, list[Row]]:
    """See `Queries`; there are no snapshots to enter."""
    del entered, snapshot
    if not _QUERY.match(statement):
        raise StatementFailed("It is no query: it must begin with SELECT or WITH.")
    session = native(connection)
    session.begin_read_only()
    try:
        result = session.run(f"SELECT * FROM ({statement.strip().rstrip(';')}\n) WHERE ROWNUM <= {most + 1}")
        return (), [tuple(_text(value) for value in row) for row in result]
    finally:
        session.end_read_only()


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return "\\x" + value.hex() if isinstance(value, bytes) else str(value)
