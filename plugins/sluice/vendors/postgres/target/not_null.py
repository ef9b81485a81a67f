"""Sets columns of a slave NOT NULL once their values have arrived.

The master adds a NOT NULL column with a value for each row; on the slave it begins empty, with a check that is not
validated and holds for rows written from then on. The check stays in the database when the apply ends; its name marks
it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

import psycopg

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import native, quoted
from sluice.vendors.postgres.target.alter_plan import PENDING
from sluice.vendors.postgres.target.constraints import run_with_retries

_SAVEPOINT = "sluice_not_null"


class NotNull:
    """The pending columns of one slave, over the connection of its apply."""

    def __init__(self, connection: Session):
        self.connection = connection
        self._altered: set[TableName] = set()
        self._tables: set[TableName] | None = None
        """Tables that had such columns when last read; None: not read yet."""

    def altered(self, table: TableName) -> None:
        """Notes that the table may have got such a column."""
        self._altered.add(table)

    def complete(self, changed: Collection[TableName]) -> bool:
        """Sets columns without NULLs NOT NULL, in tables that were `changed` or altered; whether there was any.

        Runs in the caller's transaction. Raises psycopg's errors.
        """
        altered, self._altered = self._altered, set()
        looked_at = altered.union(changed)
        if self._tables is not None and not altered and self._tables.isdisjoint(looked_at):
            return False
        pending = list(_pending(self.connection))
        self._tables = {table for table, _ in pending}
        completed = [self._set(statements) for table, statements in pending if table in looked_at]
        return any(completed)

    def _set(self, statements: Iterable[str]) -> bool:
        try:
            with native(self.connection).transaction(_SAVEPOINT):
                for statement in statements:
                    self.connection.execute(statement.encode())
        except (psycopg.errors.CheckViolation, psycopg.errors.ObjectInUse):
            return False  # Values are missing still, or deferred constraints are unchecked.
        return True


def complete_columns(connection: Session, tables: Sequence[TableName]) -> None:
    """See `LoadTarget`. The values came with the load, and no change may follow that the apply could look at."""
    for table, statements in _pending(connection):
        if table in tables:
            # Values may be missing still, and the apply may have been first.
            with suppress(psycopg.errors.CheckViolation, psycopg.errors.UndefinedObject):
                for statement in statements:
                    run_with_retries(connection, statement)


def _pending(connection: Session) -> Iterator[tuple[TableName, list[str]]]:
    """The table of each pending column, and the statements that set it NOT NULL."""
    rows = connection.execute(sql_files.render("postgres", "not_null_pending"), {"begins": PENDING}).fetchall()
    for schema, name, constraint, column in rows:
        alter = f"ALTER TABLE {quoted(schema, name)}"
        yield (
            TableName(schema, name),
            [
                # Rows are read under a weak lock; with the check validated the strong one is short.
                f"{alter} VALIDATE CONSTRAINT {quoted(constraint)}",
                f"{alter} ALTER COLUMN {quoted(column)} SET NOT NULL, DROP CONSTRAINT {quoted(constraint)}",
            ],
        )
