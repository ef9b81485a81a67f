"""Sluice's own tables on a slave, for the stores of `sluice.control`.

They are in the connection's database; the configured `schema` is not used.
"""

import json
from collections.abc import Sequence
from typing import Any

from sluice import sql_files
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.names import Prefix
from sluice.vendors.mysql.connection import MySQLSession, native, quoted
from sluice.vendors.mysql.named_locks import named_lock

TABLES = ("checkpoint", "blocks", "rejects", "throttle", "definitions", "locks")


class NotATable(Terminal):
    """Something else has the name of one of Sluice's tables."""

    def __init__(self, place: str, name: str, what: str):
        super().__init__(
            f"{place}: {name} is a {what.lower()}, and Sluice keeps a table of that name there. Drop it, or let the "
            "connection name another database."
        )


class NotDurable(Terminal):
    """The slave forgets commits when its machine crashes."""

    def __init__(self, place: str, value: str):
        super().__init__(
            f"{place}: innodb_flush_log_at_trx_commit is {value}, so a crash of the machine undoes commits of the last "
            "second, while the master has deleted their changes. As an administrator: SET GLOBAL "
            "innodb_flush_log_at_trx_commit = 1, and in the server's configuration."
        )


class MySQLTables:
    """See `sluice.database.control.OwnTables`."""

    def __init__(self, connection: Session, prefix: Prefix):
        self.session: MySQLSession = native(connection)
        self._prefix = prefix.lower
        self.placeholders = {
            "prefix": self._prefix,
            "schema": quoted(self.session.info.database),
            "clock": "UTC_TIMESTAMP(6)",
            "among": 'JSON_CONTAINS("keys", JSON_QUOTE(%(key)s))',
        }

    def has(self, table: str) -> bool:
        name = self._prefix + table
        rows = self.session.read_schema(
            sql_files.render("mysql", "relations", names="table_schema = %(database)s AND table_name = %(name)s"),
            {"database": self.session.info.database, "name": name},
        ).fetchall()
        for _, _, what in rows:
            if what != "BASE TABLE":
                raise NotATable(self.session.place, name, what)
        return bool(rows)

    def expect_not_elsewhere(self) -> None:
        """Does nothing: the tables are nowhere else."""

    def make(self) -> None:
        if all(self.has(table) for table in TABLES):
            return
        text = sql_files.render(
            "mysql",
            "slave_resources",
            prefix=self._prefix,
            schema=self.placeholders["schema"],
            collation=self.session.collation,
        )
        with named_lock(self.session, "sluice slave resources"):
            for statement in text.split(";\n"):
                if statement.strip():
                    self.session.run(statement)

    def secure(self) -> None:
        """Does nothing: anybody who may create tables in the database could have created one of them; `has` checks
        what they are."""

    def complete_rejects(self) -> None:
        """Does nothing: there was no earlier version."""

    def await_durable(self) -> None:
        """Raises `NotDurable`."""
        row = self.session.run("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit").fetchone()
        if row is not None and row[0] != 1:
            raise NotDurable(self.session.place, str(row[0]))

    def texts(self, values: Sequence[str]) -> object:
        return json.dumps(list(values), ensure_ascii=False)

    def texts_of(self, value: Any) -> tuple[str, ...]:
        return tuple(json.loads(value))
