"""How busy a PostgreSQL master's server is, for the throttle of a load."""

from decimal import Decimal

from sluice import sql_files
from sluice.counted import counted
from sluice.database.load import NoNumber, ServerLoad
from sluice.database.session import Session
from sluice.vendors.postgres.connection import native

GRANT = "this account does not see other accounts' sessions: GRANT pg_read_all_stats TO it"


def read(connection: Session) -> ServerLoad:
    """The server's load. Raises psycopg's errors."""
    row = connection.execute(sql_files.render("postgres", "pressure")).fetchone()
    assert row is not None
    return ServerLoad(*row)


def number(connection: Session, query: str) -> float:
    """The number that a user's query returns. Raises `NoNumber`, and any of psycopg's errors."""
    cursor = native(connection).execute(query.encode())
    if cursor.description is None:
        raise NoNumber("it returns nothing")
    rows = cursor.fetchmany(2)
    if len(rows) != 1 or len(rows[0]) != 1:
        result = "no row" if not rows else "more than one row" if len(rows) > 1 else counted(len(rows[0]), "column")
        raise NoNumber(f"it returns {result} instead of one number")
    (value,) = rows[0]
    if isinstance(value, bool | int | float | Decimal) and value == value:  # not NaN
        return float(value)
    result = "NULL" if value is None else f"{value!r:.80}"
    raise NoNumber(f"it returns {result} instead of a number")
