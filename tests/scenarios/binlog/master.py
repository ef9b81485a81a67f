"""A MariaDB master with a binary log, and what a recorder makes of it."""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql

from devstack.mariadb import MariaDBServer, quoted
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.vendors.mysql.binlog.log import BinaryLog
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.log_recorder import LogRecorder

SETTINGS = {
    "log_bin": "master-bin",
    "server_id": "71",
    "binlog_format": "ROW",
    "binlog_row_metadata": "FULL",
    "sync_binlog": "1",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_flush_method": "nosync",
    "innodb_doublewrite": "OFF",
    "innodb_buffer_pool_size": "64M",
    "max_connections": "100",
}
ACCOUNT = "sluice_reader"


class Master:
    """A database of a server with a log. The recorder has an account with what docs/mariadb-master.md says."""

    def __init__(self, server: MariaDBServer, database: str, folder: Path):
        self.server, self.database, self.folder = server, database, folder
        server.create_account(f"{database}_owner", database)
        password = secrets.token_urlsafe(12)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE OR REPLACE USER {ACCOUNT}@'%%' IDENTIFIED BY %s", (password,))
            cursor.execute(f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {ACCOUNT}@'%'")
            cursor.execute(f"GRANT SELECT, REFERENCES ON {quoted(database)}.* TO {ACCOUNT}@'%'")
        owner = server.info(database, f"{database}_owner")
        self.info = ConnectionInfo("mysql", owner.host, owner.port, database, ACCOUNT, password)
        self.connection = self.connect()

    def connect(self) -> "pymysql.Connection[Any]":
        """A session of an administrator in the database."""
        return self.server.connect(self.database)

    def run(self, *statements: str, on: "pymysql.Connection[Any] | None" = None) -> list[tuple[Any, ...]]:
        """The rows of the last statement."""
        rows: Sequence[Any] = ()
        with (on or self.connection).cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = cursor.fetchall()
        return list(rows)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query with parameters."""
        with self.connection.cursor() as cursor:
            cursor.execute(query, values)
            return list(cursor.fetchall())

    def refused(self, statement: str) -> None:
        """Runs a statement that must fail."""
        try:
            self.run(statement)
        except pymysql.err.Error:
            return
        raise AssertionError(f"{statement} did not fail")

    def wants(self, table: TableName) -> bool:
        return table.schema == "public"

    def recorder(self, **options: Any) -> LogRecorder:
        return LogRecorder(self.info, Prefix("REC_"), self.folder, self.wants, BinaryLog, **options)

    def record(self) -> list[dict[str, Any]]:
        """Records what the log has by now; the new changes."""
        before = len(self.changes()) if self.folder.exists() else 0
        self.recorder().record_once()
        return self.changes()[before:]

    def changes(self) -> list[dict[str, Any]]:
        """All changes of the stream, as their lines have them."""
        return [line for line in self.lines() if "change" in line]

    def lines(self) -> list[dict[str, Any]]:
        """The lines of all files, up to the last commit of each."""
        found: list[dict[str, Any]] = []
        for file in Files(self.folder).names():
            lines = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.endswith("}")]
            commits = [number for number, line in enumerate(lines) if "commit" in line]
            found += lines[: commits[-1] + 1] if commits else []
        return found

    def drop(self) -> None:
        self.connection.close()
        self.server.drop_account(f"{self.database}_owner", self.database)


def short(change: dict[str, Any]) -> tuple[Any, ...]:
    """Kind, table and the values of a row change."""
    row = change.get("new") or change.get("old") or {}
    return change["change"], change["table"][1], *row.values()
