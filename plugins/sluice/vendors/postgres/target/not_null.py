"""Sets columns of a slave NOT NULL once their values have arrived.

The master adds a NOT NULL column with a value for each row; on the slave it begins empty, with a check that is not
validated and holds for rows written from then on. The check stays in the database when the apply ends; its name marks
it.
"""

from collections.abc import Collection

import psycopg

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import native, quoted
from sluice.vendors.postgres.target.alter_plan import PENDING

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
        rows = self.connection.execute(sql_files.render("postgres", "not_null_pending"), {"begins": PENDING}).fetchall()
        self._tables = {TableName(schema, name) for schema, name, _, _ in rows}
        completed = [
            self._set(quoted(schema, name), quoted(constraint), quoted(column))
            for schema, name, constraint, column in rows
            if TableName(schema, name) in looked_at
        ]
        return any(completed)

    def _set(self, table: str, constraint: str, column: str) -> bool:
        try:
            with native(self.connection).transaction(_SAVEPOINT):
                # Rows are read under a weak lock; with the check validated the strong one is short.
                self.connection.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {constraint}".encode())
                self.connection.execute(
                    f"ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL, DROP CONSTRAINT {constraint}".encode()
                )
        except (psycopg.errors.CheckViolation, psycopg.errors.ObjectInUse):
            return False  # Values are missing still, or deferred constraints are unchecked.
        return True
