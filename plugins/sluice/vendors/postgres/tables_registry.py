"""The TABLES table of a prefix: which tables are captured, and how."""

from dataclasses import dataclass
from typing import Any

import psycopg

from sluice.domain.names import Prefix, TableName
from sluice.vendors.postgres.connection import quoted


@dataclass(frozen=True)
class Registry:
    """Reads and changes TABLES of one prefix on a master."""

    connection: psycopg.Connection[Any]
    prefix: Prefix
    schema: str

    def register(
        self, table: TableName, *, actions: str = "IDU", trigger: str | None = None, debug: bool = False
    ) -> None:
        """Adds `table` with status CREATING, makes its triggers, sets the status to OK."""
        tables = self._name("tables")
        key = self.connection.execute(f"SELECT {self._name('increment')}()").fetchone()
        assert key is not None
        self.connection.execute(
            f"INSERT INTO {tables} (schemaname, tablename, actions, repl_key, trigger_name, debug) "
            "VALUES (%s, %s, %s, %s, %s, %s)",
            [table.schema, table.name, actions, key[0], trigger or f"{self.prefix}{key[0]}", int(debug)],
        )
        self.connection.execute(f"SELECT {self._name('create_trigger')}(%s, %s)", [table.schema, table.name])

    def _name(self, resource: str) -> str:
        return quoted(self.schema, self.prefix.lower + resource)
