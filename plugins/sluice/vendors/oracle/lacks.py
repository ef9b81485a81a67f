"""What a server or an account on it lacks, for a master or a slave."""

from collections.abc import Mapping

from sluice.model.lack import Lack
from sluice.vendors.oracle.session import OracleSession

NEVER_RAN = (
    "Sluice has never run on an Oracle server: what was shown, and on what, docs/oracle.md says. Try it with data that "
    "you can spare"
)
_UNICODE = "AL32UTF8"


def of_server(session: OracleSession) -> list[Lack]:
    """What the database cannot store."""
    row = session.run("SELECT n.VALUE FROM NLS_DATABASE_PARAMETERS n WHERE n.PARAMETER = 'NLS_CHARACTERSET'").fetchone()
    characters = str(row[0]) if row else ""
    if characters == _UNICODE:
        return []
    why = f"it is {characters}: other characters than those it has would be lost"
    return [Lack("", f"the character set {_UNICODE}", why, None, remedy="Make a database in Unicode.")]


def granted(session: OracleSession, *, itself: bool = False) -> set[str]:
    """The system privileges of the account; `itself`: without those of its roles, which do not count in packages."""
    view = "USER_SYS_PRIVS" if itself else "SESSION_PRIVS"
    return {str(name) for (name,) in session.run(f"SELECT s.PRIVILEGE FROM {view} s")}


def of_account(
    session: OracleSession, privileges: Mapping[str, str], packages: Mapping[str, str], *, itself: bool = False
) -> list[Lack]:
    """Which of these system privileges and packages the account lacks; each with what needs it. `itself`: as of
    `granted`."""
    user, granted_here = account(session), granted(session, itself=itself)
    lacks = [
        Lack("", privilege, why, f"GRANT {privilege} TO {user}")
        for privilege, why in privileges.items()
        if privilege not in granted_here
    ]
    for package, why in packages.items():
        text = "SELECT COUNT(*) FROM ALL_OBJECTS o WHERE o.OBJECT_NAME = :package AND o.OBJECT_TYPE = 'PACKAGE'"
        seen = session.run(text, {"package": package}).fetchone()
        if not seen or not seen[0]:
            lacks.append(Lack("", f"EXECUTE on {package}", why, f"GRANT EXECUTE ON SYS.{package} TO {user}"))
    return lacks


def account(session: OracleSession) -> str:
    """The account's name, quoted."""
    row = session.run("SELECT SYS_CONTEXT('USERENV', 'SESSION_USER') FROM DUAL").fetchone()
    return f'"{row[0]}"' if row else ""
