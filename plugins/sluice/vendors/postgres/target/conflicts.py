"""Why a set of changes does not fit the slave's rows: the errors, and the queries that find the rows."""

from collections.abc import Callable

import psycopg

from sluice.database.conflicts import Unsettled
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.errors import reason

_REFUSING = ("21", "2F", "38", "39", "44", "45", "54", "P0")
"""Classes of SQLSTATEs, besides data (22) and constraints (23), with which a slave refuses rows: what its triggers and
views raise, and its limits, such as that of an index's rows."""


def refuses(error: psycopg.Error) -> bool:
    """Whether the slave refused rows for what they are; some of them may be welcome."""
    return (error.sqlstate or "").startswith(_REFUSING)


def at_commit(error: BaseException | None, hides: Callable[[TableName], bool]) -> Unsettled | None:
    """What a driver's error at a commit says of the slave's rows; None where it is about something else.

    `hides`: whether a table has masked columns.
    """
    expected = {"23505": "the value free", "23P01": "the value free", "23503": "the row that another refers to"}
    if not isinstance(error, psycopg.Error) or error.sqlstate not in expected:
        return None
    diag = error.diag
    if not (diag.schema_name and diag.table_name and diag.constraint_name):
        return None
    table = TableName(diag.schema_name, diag.table_name)
    found = diag.message_detail or diag.message_primary or str(error)
    if hides(table):
        found = reason(error, hidden=True)
    constraint = quoted(diag.schema_name, diag.constraint_name)
    unique = error.sqlstate != "23503"
    return Unsettled(table, constraint, expected[error.sqlstate], found.rstrip("."), unique=unique)
