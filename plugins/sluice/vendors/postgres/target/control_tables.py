"""Sluice's own tables on a PostgreSQL slave, for the stores of `sluice.control`."""

from collections.abc import Sequence
from typing import Any

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.postgres import own_schema, sessions
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.own_schema import OwnSchema


class PostgresTables:
    """See `sluice.database.control.OwnTables`. Raises `SchemaUnsafe`, `InstalledElsewhere`, `NotOwned`."""

    def __init__(self, connection: Session, prefix: Prefix, schema: str, slave: str):
        self.connection = connection
        self._own = OwnSchema.of_slave(prefix, schema, slave)
        self._names = {"prefix": prefix.lower, "schema": quoted(schema)}
        self.placeholders = {
            **self._names,
            "clock": "pg_catalog.clock_timestamp()",
            "among": "%(key)s = ANY (keys)",
        }

    def has(self, table: str) -> bool:
        return own_schema.has(self.connection, f"{self._names['schema']}.{self._names['prefix']}{table}")

    def expect_not_elsewhere(self) -> None:
        own_schema.expect_not_elsewhere(self.connection, self._own)

    def make(self) -> None:
        own_schema.expect_owned(self.connection, self._own)
        if self._installed() and self._is_current():
            return
        # IF NOT EXISTS still races with another session that creates the same table.
        sessions.lock_transaction(self.connection, "slave resources")
        own_schema.secure(self.connection, self._own)
        self.connection.execute(sql_files.render("postgres", "slave_resources", **self._names))

    def secure(self) -> None:
        own_schema.secure(self.connection, self._own)

    def complete_rejects(self) -> None:
        relation = literal(f"{self._names['schema']}.{self._names['prefix']}rejects")
        row = self.connection.execute(sql_files.render("postgres", "rejects_complete", relation=relation)).fetchone()
        if row and row[0] is False:
            self.connection.execute(sql_files.render("postgres", "rejects_upgrade", **self._names))

    def await_durable(self) -> None:
        """Waits for the log: with `synchronous_commit = off` commits are visible before they are on the disk."""
        row = self.connection.execute("SELECT pg_catalog.pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        self.connection.execute(sql_files.render("postgres", "position_secure"), {"lsn": row[0]})

    def texts(self, values: Sequence[str]) -> object:
        return list(values)

    def texts_of(self, value: Any) -> tuple[str, ...]:
        return tuple(value)

    def _installed(self) -> bool:
        if self.has("checkpoint"):
            return True
        self.expect_not_elsewhere()
        return False

    def _is_current(self) -> bool:
        row = self.connection.execute(
            sql_files.render("postgres", "slave_resources_current"),
            {name: self._own.table(name) for name in ("checkpoint", "blocks", "throttle", "definitions")},
        ).fetchone()
        return bool(row and row[0])
