"""What a slave lacks, found before anything is changed (`sluice.database.preflight.Preflight`)."""

from collections.abc import Callable, Sequence

from sluice.configuration.model import Replication, SlaveConfig
from sluice.database.preflight import Wanted
from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.model.lack import Lack, Severity
from sluice.model.names import TableName
from sluice.vendors.oracle import catalog
from sluice.vendors.oracle.not_a_master import NotAMaster
from sluice.vendors.oracle.session import OracleSession, native

__all__ = ["of_master", "of_refusal", "of_slave", "sequences_of_master", "sequences_of_slave", "wanted"]

NEVER_RAN = (
    "Sluice has never run on an Oracle server: what was shown, and on what, docs/oracle.md says. Try it with data that "
    "you can spare"
)
_PACKAGES = {
    "DBMS_LOCK": "loads and installs keep out of one another's way by it",
    "DBMS_CRYPTO": "tables are compared by it",
}
_PRIVILEGES = ("CREATE SESSION", "CREATE TABLE")
_UNICODE = "AL32UTF8"


def of_master(connection: Session, replication: Replication, *, light: bool = False) -> list[Lack]:
    raise NotAMaster


def wanted(master: Session, replication: Replication, covers: Callable[[TableName], bool]) -> Wanted:
    raise NotAMaster


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
    found = [Lack("", "a proof on an Oracle server", NEVER_RAN, None, Severity.WARNING)]
    found += [*_of_server(session), *_of_account(session)]
    if wanted is not None:
        found += _of_tables(session, [definition.table for definition in wanted.definitions])
    return found


def of_refusal(info: ConnectionInfo, reason: str) -> Lack:
    """A server that refuses the account."""
    return Lack("", f"a log-in of {info.user}", reason.rstrip("."), None, remedy="Correct the connection.")


def sequences_of_master(connection: Session, tables: Sequence[TableName]) -> list[Lack]:
    raise NotAMaster


def sequences_of_slave(connection: Session, tables: Sequence[TableName]) -> list[Lack]:
    """None: a slave draws no numbers."""
    return []


def _of_server(session: OracleSession) -> list[Lack]:
    row = session.run("SELECT n.VALUE FROM NLS_DATABASE_PARAMETERS n WHERE n.PARAMETER = 'NLS_CHARACTERSET'").fetchone()
    characters = str(row[0]) if row else ""
    if characters == _UNICODE:
        return []
    why = f"it is {characters}: other characters than those it has would be lost"
    return [Lack("", f"the character set {_UNICODE}", why, None, remedy="Make a database in Unicode.")]


def _of_account(session: OracleSession) -> list[Lack]:
    held = {str(name) for (name,) in session.run("SELECT s.PRIVILEGE FROM SESSION_PRIVS s")}
    row = session.run("SELECT SYS_CONTEXT('USERENV', 'SESSION_USER') FROM DUAL").fetchone()
    user = f'"{row[0]}"' if row else ""
    found = [
        Lack("", privilege, "tables are made and filled there", f"GRANT {privilege} TO {user}")
        for privilege in _PRIVILEGES
        if privilege not in held
    ]
    for package, why in _PACKAGES.items():
        text = "SELECT COUNT(*) FROM ALL_OBJECTS o WHERE o.OBJECT_NAME = :package AND o.OBJECT_TYPE = 'PACKAGE'"
        seen = session.run(text, {"package": package}).fetchone()
        if not seen or not seen[0]:
            found.append(Lack("", f"EXECUTE on {package}", why, f"GRANT EXECUTE ON SYS.{package} TO {user}"))
    return found


def _of_tables(session: OracleSession, tables: Sequence[TableName]) -> list[Lack]:
    """Triggers of replicated tables: a session cannot switch them off."""
    why = "it acts on each change that is applied, and what it writes to replicated tables the master does not have"
    return [
        Lack("", f"{table} without the trigger {trigger}", why, None, Severity.WARNING)
        for table, trigger in catalog.triggers(session, tables)
    ]
