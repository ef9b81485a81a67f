"""Errors with which a slave refuses rows."""

from collections.abc import Callable

import psycopg

from sluice.database.conflicts import CommitRefused
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.errors import reason

_NAMED = ("42P01", "42883", "42704", "42602", "42725", "3D000", "3F000")
"""No such table, function, type, role, database, schema: a value names one (regclass and its like)."""
_REFUSING = ("21", "2F", "38", "39", "44", "45", "54", "P0", *_NAMED)
"""Classes of SQLSTATEs, and single ones, besides data (22) and constraints (23), with which a slave refuses rows: among
them errors of its triggers and views, and limits, such as the size of an index's row."""


def refuses(error: psycopg.Error) -> bool:
    """Whether the slave refused rows because of their values; it may accept others."""
    return (error.sqlstate or "").startswith(_REFUSING)


def at_commit(error: BaseException | None, hides: Callable[[TableName], bool]) -> CommitRefused | None:
    """The conflict that a driver's error at a commit reports; None for other errors.

    `hides`: whether a table has masked columns.
    """
    expected = {"23505": "the value free", "23P01": "the value free", "23503": "the row that another refers to"}
    if not isinstance(error, psycopg.Error) or error.sqlstate not in expected:
        return None
    diag = error.diag
    if not (diag.schema_name and diag.table_name and diag.constraint_name):
        return None
    table = TableName(diag.schema_name, diag.table_name)
    text = reason(error, hidden=hides(table))
    constraint = quoted(diag.schema_name, diag.constraint_name)
    unique = error.sqlstate != "23503"
    return CommitRefused(table, constraint, expected[error.sqlstate], text.rstrip("."), unique=unique)
