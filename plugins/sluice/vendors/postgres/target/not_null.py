"""Columns of a slave that become NOT NULL when their values have come.

A column that the master added with a value for each row comes empty, with a check that is not validated yet and so
holds for rows that are written from then on. The check outlives the apply; its name says what it is for.
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
    """Of one slave, over the connection of its apply."""

    def __init__(self, connection: Session):
        self.connection = connection
        self._altered: set[TableName] = set()
        self._tables: set[TableName] | None = None
        """Those that had such columns at the last look; None: not looked yet."""

    def altered(self, table: TableName) -> None:
        """The table may have got such a column."""
        self._altered.add(table)

    def settle(self, changed: Collection[TableName]) -> bool:
        """In tables that were `changed` or altered: columns without NULLs become NOT NULL; whether there was any.

        In the caller's transaction. Raises psycopg's errors.
        """
        altered, self._altered = self._altered, set()
        looked_at = altered.union(changed)
        if self._tables is not None and not altered and self._tables.isdisjoint(looked_at):
            return False
        rows = self.connection.execute(sql_files.render("postgres", "not_null_pending"), {"begins": PENDING}).fetchall()
        self._tables = {TableName(schema, name) for schema, name, _, _ in rows}
        settled = [
            self._set(quoted(schema, name), quoted(constraint), quoted(column))
            for schema, name, constraint, column in rows
            if TableName(schema, name) in looked_at
        ]
        return any(settled)

    def _set(self, table: str, constraint: str, column: str) -> bool:
        try:
            with native(self.connection).transaction(_SAVEPOINT):
                # Rows are read under a weak lock; with the check validated the strong one is short.
                self.connection.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {constraint}".encode())
                self.connection.execute(
                    f"ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL, DROP CONSTRAINT {constraint}".encode()
                )
        except (psycopg.errors.CheckViolation, psycopg.errors.ObjectInUse):
            return False  # Values are still to come, or deferred constraints are still to be checked.
        return True
