"""Runs queries of people (`sluice.database.broadcasts.Queries`): one statement that begins like a query, in a
transaction that can only read."""

import re
from collections.abc import Callable

from sluice.database.errors import StatementFailed
from sluice.database.session import Session
from sluice.model.broadcast import Row
from sluice.vendors.mysql.connection import native

_QUERY = re.compile(r"\s*\(*\s*(SELECT|WITH|VALUES|TABLE)\b", re.IGNORECASE)


def run(
    connection: Session, statement: str, most: int, entered: Callable[[], None] | None = None, snapshot: str = ""
) -> tuple[Row, list[Row]]:
    """See `Queries`; there are no snapshots to enter."""
    del entered, snapshot
    if not _QUERY.match(statement):
        raise StatementFailed("It is no query: it must begin with SELECT, WITH, VALUES or TABLE.")
    session = native(connection)
    session.run(f"SET sql_select_limit = {most + 1}")
    session.run("START TRANSACTION READ ONLY")
    try:
        return (), [tuple(_text(value) for value in row) for row in session.run(statement).fetchall()]
    finally:
        session.run("ROLLBACK")


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return "\\x" + bytes(value).hex()
    return str(value)
