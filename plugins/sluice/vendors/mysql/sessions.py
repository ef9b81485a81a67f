"""Sessions and their locks, and Sluice's own tables, on MySQL and MariaDB."""

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sluice import sql_files
from sluice.database.session import Session, Sessions
from sluice.errors import SluiceError, Terminal
from sluice.model.names import Prefix
from sluice.vendors.common.locks import NamedLocks, RowLoadLocks
from sluice.vendors.common.own_tables import PlainOwnTables, not_a_table
from sluice.vendors.mysql.connection import MySQLSession, connect, native, quoted


class MySQLNamedLocks(NamedLocks):
    """A server has one space of such names for all databases, and 64 characters for one."""

    longest = 31_536_000
    """MariaDB takes no negative number for it."""

    def take(self, session: Session, name: str, seconds: float = 0) -> bool:
        values = {"name": lock_name(session, name), "seconds": seconds}
        row = session.execute(sql_files.render("mysql", "named_lock"), values).fetchone()
        return bool(row and row[0] == 1)

    def release(self, session: Session, name: str) -> None:
        session.execute(sql_files.render("mysql", "named_unlock"), {"name": lock_name(session, name)})

    def holder(self, session: Session, name: str) -> str | None:
        values = {"name": lock_name(session, name)}
        row = session.execute(sql_files.render("mysql", "named_lock_holder"), values).fetchone()
        return None if row is None or row[0] is None else f"session {row[0]} of the server"


NAMED_LOCKS = MySQLNamedLocks()


def lock_name(session: Session, name: str) -> str:
    """The server's name of a lock of this database."""
    whole = f"{native(session).info.database} {name}"
    return f"sluice {hashlib.sha256(whole.encode()).hexdigest()[:40]}"


class MySQLSessions(Sessions):
    """Sessions on MySQL and MariaDB for services."""

    SEE_LOCKS = "see SHOW FULL PROCESSLIST and information_schema.innodb_trx"

    connect = staticmethod(connect)

    def named_lock(self, connection: Session, name: str) -> AbstractContextManager[None]:
        return NAMED_LOCKS.held(connection, name, native(connection).server)

    def end_with_client(self, connection: Session) -> None:
        """Does nothing: the server notices a dead client only when it answers, and has no setting to look earlier."""

    def begin_applying(self, connection: Session, origin: str) -> bool:
        """Disables foreign keys for this session. Triggers act: nobody can disable them."""
        del origin
        native(connection).run("SET foreign_key_checks = 0")
        return True

    def may_silence(self, connection: Session) -> bool:
        """True: foreign keys need no privilege."""
        return True

    def allow_silence(self, connection: Session) -> str:
        """The statement that disables foreign keys; no account needs a privilege for it."""
        return "SET foreign_key_checks = 0"

    def limit_lock_waits(self, connection: Session, seconds: float) -> None:
        """For the rest of the session: there is no such setting of a transaction."""
        connection.limit_lock_waits(seconds)

    def be_durable(self, connection: Session) -> None:
        """Does nothing: the server decides for all sessions, and `CheckpointStore.secure` checks its setting."""

    def begin_reading(self, connection: Session, server: str, idle_seconds: float) -> None:
        """Sets how long the server keeps an idle session that holds a snapshot."""
        del server
        self.end_when_idle(connection, idle_seconds)

    def end_when_idle(self, connection: Session, seconds: float) -> None:
        """The server ends the session when it does nothing for so long."""
        native(connection).run(f"SET wait_timeout = {max(1, round(seconds))}")

    def waiters(self, connection: Session, holders: Sequence[Session], server: str, seconds: float) -> int:
        """How many sessions of this account wait for a table's definition: a snapshot's reader holds nothing else."""
        del holders, server, seconds
        row = (
            native(connection)
            .run(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock'"
            )
            .fetchone()
        )
        return int(row[0]) if row else 0

    def interrupt(self, connection: Session) -> None:
        """Cancels what it executes, if anything. From any thread; never raises."""
        session = native(connection)
        with contextlib.suppress(SluiceError, OSError), connect(session.info, application="sluice interrupt") as other:
            other.run(f"KILL QUERY {session.number}")

    def cut(self, connection: Session) -> None:
        """Ends the connection under a thread that waits for the server. From any thread; never raises."""
        native(connection).shut()


def not_durable(server: str, value: str) -> Terminal:
    """The slave forgets commits when its machine crashes."""
    return Terminal(
        f"{server}: innodb_flush_log_at_trx_commit is {value}, so a crash of the machine undoes commits of the last "
        "second, while the master has deleted their changes. As an administrator: SET GLOBAL "
        "innodb_flush_log_at_trx_commit = 1, and in the server's configuration.",
        code="not-durable",
    )


class MySQLTables(PlainOwnTables):
    """Sluice's own tables, in the connection's database."""

    vendor = "mysql"

    def __init__(self, connection: Session, prefix: Prefix, schema: str = "", slave: str = ""):
        self.session: MySQLSession = native(connection)
        names = {
            "schema": quoted(self.session.info.database),
            "clock": "UTC_TIMESTAMP(6)",
            "among": 'JSON_CONTAINS("keys", JSON_QUOTE(%(key)s))',
        }
        super().__init__(prefix, names, collation=self.session.collation)

    def has(self, table: str) -> bool:
        name = self.prefix + table
        rows = self.session.read_schema(
            sql_files.render("mysql", "relations", names="table_schema = %(database)s AND table_name = %(name)s"),
            {"database": self.session.info.database, "name": name},
        ).fetchall()
        for _, _, what in rows:
            if what != "BASE TABLE":
                raise not_a_table(self.session.server, name, what, "database")
        return bool(rows)

    def execute(self, statement: str) -> None:
        self.session.run(statement)

    def held(self, name: str) -> AbstractContextManager[None]:
        return NAMED_LOCKS.held(self.session, name, self.session.server)

    def await_durable(self) -> None:
        """Raises `not-durable`."""
        row = self.session.run("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit").fetchone()
        if row is not None and row[0] != 1:
            raise not_durable(self.session.server, str(row[0]))

    def texts(self, values: Sequence[str]) -> object:
        return json.dumps(list(values), ensure_ascii=False)

    def texts_of(self, value: Any) -> tuple[str, ...]:
        return tuple(json.loads(value))


class MySQLLoadLocks(RowLoadLocks):
    """Locks of loads, on rows of BLOCKS."""

    named = NAMED_LOCKS
    alone: Mapping[str, str] = {"how": "FOR UPDATE"}
    together: Mapping[str, str] = {"how": "LOCK IN SHARE MODE"}

    def names(self, connection: Session, prefix: Prefix) -> Mapping[str, str]:
        return MySQLTables(connection, prefix).placeholders
