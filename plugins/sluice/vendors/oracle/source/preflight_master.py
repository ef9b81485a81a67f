"""What an Oracle master lacks for a replication."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from sluice import sql_files
from sluice.configuration.model import Replication
from sluice.database.errors import DatabaseRefused, StatementFailed
from sluice.errors import Terminal
from sluice.model.issue import Issue, Severity
from sluice.model.names import TableName
from sluice.vendors.oracle import catalog
from sluice.vendors.oracle.rows import OracleRows
from sluice.vendors.oracle.session import OracleSession
from sluice.vendors.oracle.source import fitness

# What a server or an account on it lacks, for a master or a slave.

NEVER_RAN = (
    "Sluice has never run on an Oracle server: what was shown, and on what, docs/oracle.md says. Try it with data that "
    "you can spare"
)
_UNICODE = "AL32UTF8"


def of_server(session: OracleSession) -> Iterator[Issue]:
    """What the database cannot store."""
    row = session.run("SELECT n.VALUE FROM NLS_DATABASE_PARAMETERS n WHERE n.PARAMETER = 'NLS_CHARACTERSET'").fetchone()
    characters = str(row[0]) if row else ""
    if characters != _UNICODE:
        why = f"it is {characters}: other characters than those it has would be lost"
        yield Issue("", f"the character set {_UNICODE}", why, None, remedy="Make a database in Unicode.")


def granted(session: OracleSession, *, itself: bool = False) -> set[str]:
    """The system privileges of the account; `itself`: without those of its roles, which do not count in packages."""
    view = "USER_SYS_PRIVS" if itself else "SESSION_PRIVS"
    return {str(name) for (name,) in session.run(f"SELECT s.PRIVILEGE FROM {view} s")}


def of_account(
    session: OracleSession, privileges: Mapping[str, str], packages: Mapping[str, str], *, itself: bool = False
) -> Iterator[Issue]:
    """Which of these system privileges and packages the account lacks; each with what needs it. `itself`: as of
    `granted`."""
    user, granted_here = account(session), granted(session, itself=itself)
    for privilege, why in privileges.items():
        if privilege not in granted_here:
            yield Issue("", privilege, why, f"GRANT {privilege} TO {user}")
    for package, why in packages.items():
        text = "SELECT COUNT(*) FROM ALL_OBJECTS o WHERE o.OBJECT_NAME = :package AND o.OBJECT_TYPE = 'PACKAGE'"
        seen = session.run(text, {"package": package}).fetchone()
        if not seen or not seen[0]:
            yield Issue("", f"EXECUTE on {package}", why, f"GRANT EXECUTE ON SYS.{package} TO {user}")


def account(session: OracleSession) -> str:
    """The account's name, quoted."""
    row = session.run("SELECT SYS_CONTEXT('USERENV', 'SESSION_USER') FROM DUAL").fetchone()
    return f'"{row[0]}"' if row else ""


_PRIVILEGES = {
    "CREATE SESSION": "Sluice works over sessions",
    "CREATE TABLE": "ITEMS, TABLES and others are made in its schema",
    "CREATE SEQUENCE": "SEQ numbers the changes",
    "CREATE VIEW": "COLS_VIEW shows the columns of the captured tables",
    "CREATE PROCEDURE": "its packages are what triggers call",
}
_OF_PACKAGES = {"CREATE TRIGGER": "triggers capture the changes, and a package makes them, in which no role counts"}
_OF_OTHERS = {"CREATE ANY TRIGGER": "tables of other accounts are captured by triggers that a package of its own makes"}
_NOTICES = "ADMINISTER DATABASE TRIGGER"
_SEES_ALL = "EXEMPT ACCESS POLICY"
_PACKAGES = {
    "DBMS_LOCK": "installations keep out of one another's way by it",
    "DBMS_FLASHBACK": "blocks and comparisons see tables as of one moment by it",
    "DBMS_CRYPTO": "tables are compared by it",
}
_VIEWS = {
    "GV$TRANSACTION": "SYS.GV_$TRANSACTION",
    "GV$DATABASE": "SYS.GV_$DATABASE",
    "GV$INSTANCE": "SYS.GV_$INSTANCE",
    "V$THREAD": "SYS.V_$THREAD",
    "V$DATABASE": "SYS.V_$DATABASE",
    "V$DATABASE_INCARNATION": "SYS.V_$DATABASE_INCARNATION",
    "V$PDBS": "SYS.V_$PDBS",
    "V$PDB_INCARNATION": "SYS.V_$PDB_INCARNATION",
    "DBA_2PC_PENDING": "SYS.DBA_2PC_PENDING",
}
"""What a position reads, and the privilege for it."""
_OF_ROWS = _VIEWS | {"GV$SESSION": "SYS.GV_$SESSION"}
"""The same beside redo: the transactions that its stream lacks, and their owners."""


def issues(session: OracleSession, replication: Replication, *, light: bool) -> list[Issue]:
    """`light`: only privileges."""
    issues = [Issue("", "a proof on an Oracle server", NEVER_RAN, None, Severity.WARNING)]
    tables = []
    try:
        tables = [each.table for each in replication.resolve(OracleRows().tables(session))]
    except Terminal as wrong:
        why = str(wrong).rstrip(".")
        issues.append(Issue("", "tables of the configuration", why, None))
    issues += [*of_server(session), *_of_account(session, {table.schema for table in tables}), *_of_heirs(session)]
    if light:
        return issues
    if replication.initial.read == "locked":
        why = "rows are locked for one session alone, and blocks are read by several"
        remedy = "Write `read: committed` or `read: snapshot` under `initial`."
        issues.append(Issue("", "another way to read than `read: locked`", why, None, remedy=remedy))
    issues += _of_policies(session, tables)
    for table, why in fitness.unfit(session, tables).items():
        reason, _, remedy = why.rpartition(": ")
        issues.append(
            Issue("", f"a table {table} that can be captured", f"it {reason}", None, remedy=_sentence(remedy))
        )
    return issues


def beside_redo(session: OracleSession) -> list[Issue]:
    """What is missing for reading the rows of a master whose changes come from its redo."""
    needed = {package: _PACKAGES[package] for package in ("DBMS_FLASHBACK", "DBMS_CRYPTO")}
    why = "rows are read once no transaction runs that the redo lacks: it is asked for them"
    views = list(_of_views(session, _OF_ROWS, why))
    return [*of_account(session, {}, needed), *_of_heirs(session), *views, *(_of_logging(session) if not views else [])]


def _of_heirs(session: OracleSession) -> Iterator[Issue]:
    """Whether code of others inherits the account's privileges when the account calls it, perhaps without knowing."""
    user = account(session)
    text = (
        "SELECT COUNT(*) FROM USER_TAB_PRIVS p WHERE p.PRIVILEGE = 'INHERIT PRIVILEGES' AND p.GRANTEE = 'PUBLIC' "
        "AND p.TABLE_NAME = :name"
    )
    row = session.run(text, {"name": user.strip('"')}).fetchone()
    if row and row[0]:
        why = (
            "an owner of tables could put a view in the place of one, or a function behind a column or an index, that "
            "runs with the privileges of this account when it reads"
        )
        statement = f"REVOKE INHERIT PRIVILEGES ON USER {user} FROM PUBLIC"
        yield Issue("", "privileges that code of others does not inherit", why, statement, Severity.WARNING)


def _of_logging(session: OracleSession) -> Iterator[Issue]:
    ((forced,),) = session.run(sql_files.render("oracle", "redo_logging")).fetchall()
    if forced != "YES":
        why = "what is loaded with NOLOGGING is in no redo, and slaves lack it until they are repaired"
        yield Issue("", "FORCE LOGGING", why, "ALTER DATABASE FORCE LOGGING", Severity.WARNING)


def _of_policies(session: OracleSession, tables: Sequence[TableName]) -> list[Issue]:
    """Policies that may hide rows from the account, which a load and a comparison would not notice."""
    if _SEES_ALL in granted(session):
        return []
    why = "it may hide rows from the account, which a load and a comparison would then lack alike"
    return [
        Issue("", f"{_SEES_ALL}, as of the policy {policy} on {table}", why, f"GRANT {_SEES_ALL} TO {account(session)}")
        for table, policy in catalog.policies(session, tables)
    ]


def _of_account(session: OracleSession, owners: Collection[str]) -> list[Issue]:
    """`owners`: of the tables."""
    direct = _OF_PACKAGES | (_OF_OTHERS if set(owners) - {session.schema} else {})
    issues = [*of_account(session, _PRIVILEGES, _PACKAGES), *of_account(session, direct, {}, itself=True)]
    issues += _of_views(session, _VIEWS, "a position asks it which transactions run")
    why = "TRUNCATE and what happens to partitions are not noticed without it"
    noticed = of_account(session, {_NOTICES: why}, {}, itself=True)
    return issues + [issue.softened() for issue in noticed]


def _of_views(session: OracleSession, views: Mapping[str, str], why: str) -> Iterator[Issue]:
    """The tables that the account may not read."""
    user = account(session)
    for view, needed in views.items():
        try:
            session.run(f"SELECT 1 FROM {view} WHERE 1 = 0")
        except (DatabaseRefused, StatementFailed):
            yield Issue("", f"SELECT on {view}", why, f"GRANT SELECT ON {needed} TO {user}")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
