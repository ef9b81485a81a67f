"""Runs many statements in one round trip."""

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg

from sluice.database.session import Session
from sluice.vendors.postgres.connection import native, together


class StatementsFailed(Exception):
    """One of the statements failed; those after it were not run. `index` is its place, `error` the driver's error."""

    def __init__(self, index: int, error: psycopg.Error):
        super().__init__(str(error))
        self.index = index
        self.error = error


def send(connection: Session, statements: Iterable[tuple[str, Sequence[object]]]) -> list[int]:
    """The number of rows that each statement changed; otherwise as `run`."""
    return [cursor.rowcount for cursor in run(connection, statements)]


def run(connection: Session, statements: Iterable[tuple[str, Sequence[object]]]) -> list[psycopg.RawCursor[Any]]:
    """Runs `(text with $1…, parameters)` in order without waiting for each. Returns a cursor with each result.

    All are prepared, so their texts should recur. Raises `StatementsFailed`; the transaction is lost then, up to an
    earlier savepoint.
    """
    driver = native(connection)
    cursors: list[psycopg.RawCursor[Any]] = []
    try:
        with together(connection):
            for text, parameters in statements:
                cursor = psycopg.RawCursor(driver)
                cursors.append(cursor)
                cursor.execute(text, parameters, prepare=True)
    except psycopg.Error as error:
        silent = (index for index, cursor in enumerate(cursors) if cursor.pgresult is None)
        raise StatementsFailed(next(silent, len(cursors) - 1), error) from error
    return cursors
