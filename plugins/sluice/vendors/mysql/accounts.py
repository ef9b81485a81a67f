"""Accounts of a slave's server, and what a server or an account lacks."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sluice import sql_files
from sluice.configuration.model import Replication, SlaveConfig
from sluice.database import addresses
from sluice.database.accounts import Accounts
from sluice.database.preflight import Preflight, Requirements
from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import Issue, Severity, fixes
from sluice.model.names import Prefix, TableName
from sluice.vendors.common.own_tables import TABLES
from sluice.vendors.mysql import catalog, grants
from sluice.vendors.mysql.binlog.requirements import PRIVILEGES as PRIVILEGES_OF_LOG
from sluice.vendors.mysql.connection import MySQLSession, literal, native, quoted
from sluice.vendors.mysql.sessions import MySQLTables

OLDEST = {True: (10, 6, 0), False: (8, 0, 0)}
"""On MariaDB and on MySQL."""
SMALLEST_PAGE = 16_384
"""With smaller ones InnoDB takes keys of 768 or 1,536 bytes. Sluice's own tables need more; rows are limited, too."""
PRIVILEGES = (
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "ALTER",
    "DROP",
    "INDEX",
    "REFERENCES",
    "CREATE TEMPORARY TABLES",
)


@dataclass(frozen=True)
class Server:
    """The properties that decide whether a server can be a slave's."""

    mariadb: bool
    """Else it is MySQL."""
    version: tuple[int, int, int]
    local_infile: bool
    flush_at_commit: int
    """`innodb_flush_log_at_trx_commit`."""
    read_only: bool
    logs_statements: bool
    """Whether it has a binary log, of statements instead of rows."""
    page: int
    """`innodb_page_size`, in bytes."""


def of_server(server: Server) -> Iterator[Issue]:
    """The issues of a server. Pure."""
    oldest = OLDEST[server.mariadb]
    if server.version < oldest:
        name = "MariaDB" if server.mariadb else "MySQL"
        least = ".".join(map(str, oldest[:2]))
        why = f"it is {'.'.join(map(str, server.version))}, and lacks what loaders claim blocks with"
        yield Issue("", f"{name} {least} or later", why, None, remedy="Upgrade the server.")
    if not server.local_infile:
        why = "rows are loaded, and changes staged, by LOAD DATA LOCAL; nothing is read from a file"
        yield Issue("", "the server's variable local_infile", why, "SET GLOBAL local_infile = 1")
    if server.flush_at_commit != 1:
        now = server.flush_at_commit
        why = f"it is {now}: a crash of the machine would undo commits whose changes the master has deleted"
        statement = "SET GLOBAL innodb_flush_log_at_trx_commit = 1"
        yield Issue("", "innodb_flush_log_at_trx_commit = 1", why, statement)
    if server.page < SMALLEST_PAGE:
        why = (
            f"it is {server.page}: a key has {server.page * 3 // 16:,} bytes there at most, too few for Sluice's own "
            "tables and for many of yours"
        )
        remedy = "Take a server that was initialized with pages of 16 KiB, the default: the size cannot be changed."
        yield Issue("", f"innodb_page_size of {SMALLEST_PAGE} or more", why, None, remedy=remedy)
    if server.logs_statements:
        why = "it is STATEMENT: the server refuses what sessions of READ COMMITTED write"
        yield Issue("", "binlog_format = MIXED or ROW", why, "SET GLOBAL binlog_format = 'MIXED'")
    if server.read_only:
        why = "the account may write to a server that is read-only for others only with the right to do so"
        yield Issue("", "a server that takes writes", why, None, Severity.WARNING)


def _server(session: MySQLSession) -> Server:
    values = session.run(
        # Newer releases of MariaDB say in a word how far they are read-only.
        "SELECT @@GLOBAL.local_infile, @@GLOBAL.innodb_flush_log_at_trx_commit,"
        " CAST(@@GLOBAL.read_only AS CHAR) NOT IN ('0', 'OFF'),"
        " @@GLOBAL.log_bin AND @@GLOBAL.binlog_format = 'STATEMENT', @@GLOBAL.innodb_page_size"
    ).fetchone()
    assert values is not None
    infile, flushed, read_only, logs_statements, page = map(int, values)
    return Server(session.mariadb, session.version, bool(infile), flushed, bool(read_only), bool(logs_statements), page)


def _of_account(session: MySQLSession, databases: Sequence[str]) -> Iterator[Issue]:
    """The missing privileges on the databases of replicated tables, and on the connection's."""
    grantee = session.prepared_account or grants.own_account(session)
    for database in databases:
        granted = grants.granted(session, grantee, database)
        if {"ALL", "ALL PRIVILEGES"} & granted:
            continue
        if missing := [privilege for privilege in PRIVILEGES if privilege not in granted]:
            why = "tables are made, loaded and changed there; a role that is not active does not count"
            named = ", ".join(missing)
            yield Issue("", f"{named} on the database {database}", why, grants.grant(named, database, grantee))
        if "TRIGGER" not in granted:
            why = "without it nobody is told of triggers that act on what is applied"
            statement = grants.grant("TRIGGER", database, grantee)
            yield Issue("", f"TRIGGER on the database {database}", why, statement, Severity.WARNING)


def _of_tables(session: MySQLSession, tables: Sequence[TableName]) -> Iterator[Issue]:
    """Triggers of replicated tables, as warnings: nobody can disable them."""
    if not tables:
        return
    condition, values = catalog.among(session, tables, catalog.OF_TRIGGERS)
    for database, name, trigger in session.read_schema(
        sql_files.render("mysql", "triggers", tables=condition), values
    ).fetchall():
        table = catalog.table_of(session, database, name)
        why = "it acts on each change that is applied, and what it writes to replicated tables the master does not have"
        yield Issue("", f"{table} without the trigger {trigger}", why, None, Severity.WARNING)


class MySQLPreflight(Preflight):
    """Finds what a slave lacks, before anything is changed."""

    def of_slave(
        self,
        connection: Session,
        replication: Replication,
        slave: SlaveConfig,
        requirements: Requirements | None,
        *,
        part: bool = False,
        light: bool = False,
    ) -> list[Issue]:
        """What a slave lacks. `part` and `light` make no difference: few statements are needed."""
        session = native(connection)
        tables = [definition.table for definition in requirements.definitions] if requirements is not None else []
        databases = [session.info.database, *(catalog.database_of(session, table.schema) for table in tables)]
        # A load refuses tables in the others: nobody may be granted anything there.
        allowed = [database for database in dict.fromkeys(databases) if database.lower() not in catalog.OF_SERVER]
        return [
            *of_server(_server(session)),
            *_of_account(session, allowed),
            *_of_tables(session, tables),
        ]

    def of_refusal(self, info: ConnectionInfo, reason: str) -> Issue:
        """An issue for a refused account."""
        return Issue("", f"a log-in of {info.user}", reason.rstrip("."), None, remedy="Correct the connection.")

    def sequences_of_slave(self, connection: Session, tables: Sequence[TableName]) -> list[Issue]:
        """Empty: a slave draws no numbers."""
        return []


ANYWHERE = "%"
"""The host from which a created account may connect."""


def _account_of(connection: Session, role: str) -> str:
    """The account of that name: the one that may come from anywhere, if there are several."""
    session = native(connection)
    rows = session.run("SELECT host FROM mysql.user WHERE user = %s ORDER BY host <> '%%', host", [role]).fetchall()
    return grants.account(role, rows[0][0] if rows else ANYWHERE)


class MySQLAccounts(Accounts):
    """Accounts and databases of a slave's server. Every statement commits: what ends half-way continues with
    the next run."""

    ADMINISTRATOR = "root"
    MAINTENANCE = "information_schema"
    """Everybody may enter it."""
    PASSWORD_VARIABLE = "MYSQL_PWD"  # noqa: S105

    def parse(self, url: str, user: str) -> ConnectionInfo:
        """Raises `BadAddress`, `PasswordShown`."""
        return addresses.parsed(url, "mysql", user, f"{self.PASSWORD_VARIABLE}, or asked for")

    def password_used(self, connection: Session) -> str:
        """No file has one: it came from the caller."""
        return native(connection).info.password

    def password_places(self, info: ConnectionInfo) -> str:
        del info
        return self.PASSWORD_VARIABLE

    def account_help(self, role: str) -> str:
        return (
            f"If the account {role} is not there yet, --admin makes it (by hand: docs/mariadb.md); if nobody knows its "
            f"password, an administrator gives it a new one: ALTER USER {grants.account(role, ANYWHERE)} IDENTIFIED BY "
            "'…' ACCOUNT UNLOCK."
        )

    def is_logged_in(self, connection: Session, role: str) -> bool:
        query = "SELECT 1 FROM information_schema.processlist WHERE user = %s LIMIT 1"
        return bool(native(connection).run(query, [role]).fetchall())

    def role_exists(self, connection: Session, role: str) -> bool:
        """Whether the account exists, for any host."""
        return bool(native(connection).run("SELECT 1 FROM mysql.user WHERE user = %s LIMIT 1", [role]).fetchall())

    def database_exists(self, connection: Session, name: str) -> bool:
        query = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
        return bool(native(connection).run(query, [name]).fetchall())

    def create_role(self, role: str) -> str:
        """Creates the account locked until `set_password`: without a password everybody could log in."""
        return f"CREATE USER {grants.account(role, ANYWHERE)} ACCOUNT LOCK"

    def password_step(self, role: str) -> str:
        """What a person runs to give a new account its password, as a comment."""
        account = grants.account(role, ANYWHERE)
        return f"-- ALTER USER {account} IDENTIFIED BY '…' ACCOUNT UNLOCK;"

    def create_database(self, name: str, owner: str, encoding: str) -> str:
        """Databases have no owner; tables name their character set."""
        del owner, encoding
        return f"CREATE DATABASE {grants.in_backticks(name)}"

    def of_new_database(self, connection: Session, role: str, database: str) -> list[str]:
        del connection
        privileges = ", ".join([*PRIVILEGES, "TRIGGER"])
        return [grants.grant(privileges, database, grants.account(role, ANYWHERE))]

    def set_password(self, connection: Session, role: str, password: str) -> None:
        """Sets a password. MariaDB gets its hash; MySQL, which computes hashes only itself, does not log it."""
        session = native(connection)
        account = grants.account(role, ANYWHERE)
        if session.mariadb:
            once = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
            hashed = hashlib.sha1(once, usedforsecurity=False).hexdigest().upper()
            session.run(f"ALTER USER {account} IDENTIFIED BY PASSWORD '*{hashed}' ACCOUNT UNLOCK")
        else:
            session.run(f"ALTER USER {account} IDENTIFIED BY {literal(password)} ACCOUNT UNLOCK")

    def run(self, connection: Session, statements: Iterable[str]) -> None:
        for statement in statements:
            native(connection).run(statement)

    def fixed(
        self, connection: Session, role: str, created: bool, current_issues: Callable[[], list[Issue]]
    ) -> list[str]:
        """Nothing can be tried, so the account's grants are read; one read finds all issues."""
        session = native(connection)
        kept = [] if created else [self.create_role(role)]
        session.prepared_account = _account_of(session, role) if created else grants.account(role, ANYWHERE)
        try:
            return kept + fixes(current_issues(), kept)
        finally:
            session.prepared_account = None

    def remove_slave(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> None:
        """The slave's rows of Sluice's tables, and with those of the last slave the tables."""
        del schema
        session = native(connection)
        own = MySQLTables(session, prefix)
        present = [prefix.lower + table for table in TABLES if own.has(table)]
        for table in present:
            if not table.endswith("locks"):
                session.run(f"DELETE FROM {quoted(table)} WHERE slave = %s", [slave])
        checkpoint = f"{prefix.lower}checkpoint"
        if checkpoint in present and session.run(f"SELECT 1 FROM {quoted(checkpoint)} LIMIT 1").fetchall():
            return
        staged = session.read_schema(
            sql_files.render("mysql", "relations", names="table_schema = %(database)s AND table_name RLIKE %(stage)s"),
            {"database": session.info.database, "stage": f"^{prefix.lower}stage_[0-9]+_"},
        )
        for name in [*present, *(name for _, name, _ in staged)]:
            session.run(f"DROP TABLE IF EXISTS {quoted(name)}")

    def revokes(self, connection: Session, role: str) -> list[str]:
        """The privileges on all databases, because each schema of the master but one is a database here, and those
        that reading a master's log takes."""
        session = native(connection)
        own = role == session.info.user
        account = grants.own_account(session) if own else _account_of(session, role)
        return grants.revokes(session, account, PRIVILEGES_OF_LOG)
