"""What a MariaDB master, its account and its tables need, so that its binary log holds every change of their rows."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sluice import sql_files
from sluice.database.errors import DatabaseRefused
from sluice.errors import Terminal
from sluice.model.issue import Issue, Severity, errors
from sluice.model.names import TableName
from sluice.vendors.mysql import catalog, grants
from sluice.vendors.mysql.connection import MySQLSession

OLDEST = (10, 6, 0)
ENGINE = "InnoDB"
SETTINGS = {
    "binlog_format": ("ROW", "changes are logged as statements, which a recorder cannot follow; sessions that are open "
                      "keep theirs until they connect again"),
    "binlog_row_image": ("FULL", "rows are logged without some of their columns; open sessions keep it"),
    "binlog_row_metadata": ("FULL", "names and types of columns are not in the log"),
    "sync_binlog": ("1", "after a crash of the server the log lacks transactions that slaves have"),
    "innodb_flush_log_at_trx_commit": ("1", "after a crash the server lacks transactions that slaves have"),
}  # fmt: skip
"""Settings, the value that each needs, and what happens without."""
PRIVILEGES = {
    "REPLICATION SLAVE": "the log is read as a replica reads it",
    "BINLOG MONITOR": "its end is asked for",
}
"""On all databases."""
OF_TABLES = ("SELECT", "REFERENCES")
"""On the databases of the tables: without another one than SELECT, foreign keys are hidden."""
SHORTEST_KEPT = 86_400
"""Seconds for which the log is kept at least, without a warning."""
FILTERS = ("Binlog_Do_DB", "Binlog_Ignore_DB")
_ACTIONS = {"c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}


class MasterUnfit(Terminal):
    """The master's log does not have all changes of the tables."""

    def __init__(self, server: str, issues: Sequence[Issue]):
        listed = "\n".join(f"- {issue.what}: {issue.why}.{issue.fix}" for issue in issues)
        super().__init__(f"{server}: its binary log cannot be followed yet. Nothing was recorded.\n{listed}")
        self.issues = issues


@dataclass(frozen=True)
class Found:
    """What a server says of itself and of the tables."""

    mariadb: bool
    version: tuple[int, int, int]
    logs: bool
    settings: Mapping[str, str]
    filters: Mapping[str, str]
    privileges: frozenset[str]
    """On all databases."""
    lacking_on: Mapping[str, Sequence[str]]
    """Databases of the tables: privileges that the account has not on all of their tables."""
    unseen: frozenset[str]
    """Databases of the configuration of which the account sees no table: it may have none."""
    account: str
    unfit: Mapping[TableName, str]
    """Tables whose changes the log does not have as they happen, and why."""
    cascades: Sequence[tuple[TableName, str]]
    """Tables whose rows a foreign key changes, and how."""


def lacking(found: Found) -> list[Issue]:
    """What is missing. Pure."""
    issues = []

    def issue(what: str, why: str, statement: str | None = None, remedy: str = "") -> None:
        issues.append(Issue("", what, why, statement, remedy=remedy))

    if not found.mariadb or found.version < OLDEST:
        issue("MariaDB 10.6 or later", "the log of other servers was never read", remedy="Use such a server.")
        return issues
    if not found.logs:
        remedy = "Write log_bin and a server_id into the server's configuration, and restart it."
        issue("log_bin", "the server has no binary log", remedy=remedy)
    for name, (expected, why) in SETTINGS.items():
        if found.settings.get(name, "").upper() != expected:
            value = expected if expected.isdigit() else f"'{expected}'"
            lasting = f"{why}; the server's configuration needs it, too, for its next start"
            issue(f"{name} = {expected}", lasting, f"SET GLOBAL {name} = {value}")
    kept = int(found.settings.get("binlog_expire_logs_seconds") or 0)
    if 0 < kept < SHORTEST_KEPT:
        why = f"it is {kept}: what is deleted before it was recorded is lost, and all slaves are loaded again"
        longer = f"SET GLOBAL binlog_expire_logs_seconds = {10 * SHORTEST_KEPT}"
        what = f"binlog_expire_logs_seconds of {SHORTEST_KEPT} or more, or 0"
        issues.append(Issue("", what, why, longer, Severity.WARNING))
    for name, databases in found.filters.items():
        if databases:
            remedy = "Take it out of the server's configuration, and restart it."
            issue(f"no {name}", f"only some databases are logged ({databases})", remedy=remedy)
    for privilege, why in PRIVILEGES.items():
        if not {privilege, "ALL PRIVILEGES"} & found.privileges:
            issue(privilege, why, f"GRANT {privilege} ON *.* TO {found.account}")
    for database, names_of in found.lacking_on.items():
        why = "tables are read, and their foreign keys are hidden without"
        given = grants.grant(", ".join(names_of), database, found.account)
        severity = Severity.WARNING if database in found.unseen else Severity.ERROR
        issues.append(Issue("", f"{', '.join(names_of)} on {database}", why, given, severity))
    for table, why in found.unfit.items():
        # For a person to run: it rebuilds a table of the application.
        other = "" if "history" in why else f"Run ALTER TABLE {_qualified(table)} ENGINE = {ENGINE}, or leave"
        issue(f"{table} as a plain table of {ENGINE}", why, remedy=f"{other or 'Leave'} the table out.")
    for table, why in found.cascades:
        remedy = "Let the application change these rows itself, or leave the tables out."
        issue(f"{table} without actions of foreign keys", why, remedy=remedy)
    return issues


def expect(session: MySQLSession, tables: Sequence[TableName]) -> None:
    """Raises `MasterUnfit`."""
    if issues := errors(lacking(find(session, tables))):
        raise MasterUnfit(session.info.server, issues)


def find(session: MySQLSession, tables: Sequence[TableName], schemas: Iterable[str] = ()) -> Found:
    """`schemas`: beside those of `tables`, which an account without privileges does not see."""
    settings = dict(session.run("SHOW GLOBAL VARIABLES").fetchall())
    logs = str(settings.get("log_bin", "")).upper() == "ON"
    account = session.prepared_account or grants.own_account(session)
    privileges = grants.granted_everywhere(session, account)
    filters: dict[str, str] = {}
    if logs:
        with suppress(DatabaseRefused):  # without BINLOG MONITOR
            status = session.run("SHOW MASTER STATUS").fetchone()
            filters = dict(zip(FILTERS, map(str, status[2:4] if status else ()), strict=False))
    seen = {catalog.database_of(session, table.schema) for table in tables}
    databases = sorted(seen | {catalog.database_of(session, schema) for schema in schemas})
    lacking_on = {}
    for database in databases:
        had = grants.granted(session, account, database)
        if "ALL PRIVILEGES" not in had and (issues := [each for each in OF_TABLES if each not in had]):
            lacking_on[database] = issues
    return Found(
        session.mariadb, session.version, logs, settings, filters, frozenset(privileges), lacking_on,
        frozenset(databases) - seen, account,
        unfit(session, tables),
        cascades(session, tables),
    )  # fmt: skip


def unfit(session: MySQLSession, tables: Sequence[TableName]) -> dict[TableName, str]:
    """Those of `tables` whose changes the log does not have as they happen, and why."""
    if not tables:
        return {}
    found = {}
    condition, values = catalog.among(session, tables)
    statement = sql_files.render("mysql", "binlog_tables", tables=condition)
    for database, name, kind, engine in session.read_schema(statement, values):
        table = catalog.table_of(session, database, name)
        if str(engine) != ENGINE:
            found[table] = f"its engine is {engine}, which undoes nothing, and logs otherwise than it stores"
        elif kind == "SYSTEM VERSIONED":
            found[table] = "its history is logged as rows"
    for database, name in session.read_schema(sql_files.render("mysql", "binlog_computed", tables=condition), values):
        found.setdefault(catalog.table_of(session, database, name), "all of its columns are computed")
    return found


def is_sequence(session: MySQLSession, table: TableName) -> bool:
    """Whether it is a sequence, whose numbers are logged as rows."""
    condition, values = catalog.among(session, [table])
    statement = sql_files.render("mysql", "binlog_sequences", tables=condition)
    return session.read_schema(statement, values).fetchone() is not None


def cascades(session: MySQLSession, tables: Sequence[TableName]) -> list[tuple[TableName, str]]:
    """Tables whose rows are changed by foreign keys from or to `tables`, and how."""
    return [
        (own.key.child, f"the foreign key {own.name} writes to its rows by {_ACTIONS[action]}, which is in no log")
        for own in catalog.foreign_keys(session, tables)
        for action in sorted({own.key.on_update, own.key.on_delete} & _ACTIONS.keys())
    ]


def _qualified(table: TableName) -> str:
    name = grants.in_backticks(table.name)
    return name if table.schema == catalog.HERE else f"{grants.in_backticks(table.schema)}.{name}"
