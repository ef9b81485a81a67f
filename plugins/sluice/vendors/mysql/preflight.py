"""Finds what a slave lacks, before anything is changed (`sluice.database.preflight.Preflight`)."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluice import sql_files
from sluice.configuration.model import Replication, SlaveConfig
from sluice.database.preflight import Wanted
from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.model.lack import Lack, Severity
from sluice.model.names import TableName
from sluice.vendors.mysql import catalog, grants, names
from sluice.vendors.mysql.connection import MySQLSession, native

OLDEST = {True: (10, 6, 0), False: (8, 0, 0)}
"""On MariaDB and on MySQL."""
SMALLEST_PAGE = 16_384
"""With smaller ones InnoDB takes keys of 768 or 1,536 bytes. Sluice's own tables need more; rows are limited, too."""
PRIVILEGES = (
    "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX", "REFERENCES",
    "CREATE TEMPORARY TABLES",
)  # fmt: skip


def of_slave(
    connection: Session,
    replication: Replication,
    slave: SlaveConfig,
    wanted: Wanted | None,
    *,
    part: bool = False,
    light: bool = False,
) -> list[Lack]:
    """What a slave lacks. `part` and `light` make no difference: few statements are needed."""
    session = native(connection)
    tables = [definition.table for definition in wanted.definitions] if wanted is not None else []
    databases = [session.info.database, *(names.database_of(session, table.schema) for table in tables)]
    # A load refuses tables in the others: nobody may be granted anything there.
    allowed = [database for database in dict.fromkeys(databases) if database.lower() not in names.OF_SERVER]
    return [
        *of_server(_server(session)),
        *_of_account(session, allowed),
        *_of_tables(session, tables),
    ]


def of_refusal(info: ConnectionInfo, reason: str) -> Lack:
    """A lack for a refused account."""
    return Lack("", f"a log-in of {info.user}", reason.rstrip("."), None, remedy="Correct the connection.")


def sequences_of_slave(connection: Session, tables: Sequence[TableName]) -> list[Lack]:
    """Empty: a slave draws no numbers."""
    return []


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


def of_server(server: Server) -> list[Lack]:
    """The lacks of a server. Pure."""
    lacks = []
    oldest = OLDEST[server.mariadb]
    if server.version < oldest:
        name = "MariaDB" if server.mariadb else "MySQL"
        least = ".".join(map(str, oldest[:2]))
        why = f"it is {'.'.join(map(str, server.version))}, and lacks what loaders claim blocks with"
        lacks.append(Lack("", f"{name} {least} or later", why, None, remedy="Upgrade the server."))
    if not server.local_infile:
        why = "rows are loaded, and changes staged, by LOAD DATA LOCAL; nothing is read from a file"
        lacks.append(Lack("", "the server's variable local_infile", why, "SET GLOBAL local_infile = 1"))
    if server.flush_at_commit != 1:
        now = server.flush_at_commit
        why = f"it is {now}: a crash of the machine would undo commits whose changes the master has deleted"
        statement = "SET GLOBAL innodb_flush_log_at_trx_commit = 1"
        lacks.append(Lack("", "innodb_flush_log_at_trx_commit = 1", why, statement))
    if server.page < SMALLEST_PAGE:
        why = (
            f"it is {server.page}: a key has {server.page * 3 // 16:,} bytes there at most, too few for Sluice's own "
            "tables and for many of yours"
        )
        remedy = "Take a server that was initialized with pages of 16 KiB, the default: the size cannot be changed."
        lacks.append(Lack("", f"innodb_page_size of {SMALLEST_PAGE} or more", why, None, remedy=remedy))
    if server.logs_statements:
        why = "it is STATEMENT: the server refuses what sessions of READ COMMITTED write"
        lacks.append(Lack("", "binlog_format = MIXED or ROW", why, "SET GLOBAL binlog_format = 'MIXED'"))
    if server.read_only:
        why = "the account may write to a server that is read-only for others only with the right to do so"
        lacks.append(Lack("", "a server that takes writes", why, None, Severity.WARNING))
    return lacks


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


def _of_account(session: MySQLSession, databases: Sequence[str]) -> list[Lack]:
    """The missing privileges on the databases of replicated tables, and on the connection's."""
    grantee = session.prepared_account or grants.own_account(session)
    lacks = []
    for database in databases:
        granted = grants.granted(session, grantee, database)
        if {"ALL", "ALL PRIVILEGES"} & granted:
            continue
        if lacking := [privilege for privilege in PRIVILEGES if privilege not in granted]:
            why = "tables are made, loaded and changed there; a role that is not active does not count"
            named = ", ".join(lacking)
            lacks.append(Lack("", f"{named} on the database {database}", why, grants.grant(named, database, grantee)))
        if "TRIGGER" not in granted:
            why = "without it nobody is told of triggers that act on what is applied"
            statement = grants.grant("TRIGGER", database, grantee)
            lacks.append(Lack("", f"TRIGGER on the database {database}", why, statement, Severity.WARNING))
    return lacks


def _of_tables(session: MySQLSession, tables: Sequence[TableName]) -> list[Lack]:
    """Triggers of replicated tables, as warnings: nobody can disable them."""
    if not tables:
        return []
    condition, values = catalog.among(session, tables, catalog.OF_TRIGGERS)
    lacks = []
    for database, name, trigger in session.read_schema(
        sql_files.render("mysql", "triggers", tables=condition), values
    ).fetchall():
        table = names.table_of(session, database, name)
        why = "it acts on each change that is applied, and what it writes to replicated tables the master does not have"
        lacks.append(Lack("", f"{table} without the trigger {trigger}", why, None, Severity.WARNING))
    return lacks
