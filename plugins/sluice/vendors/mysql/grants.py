"""The privileges of an account, and the statements that change them."""

import re
from collections.abc import Collection

from sluice.database.errors import StatementFailed
from sluice.vendors.mysql.connection import MySQLSession, literal
from sluice.vendors.mysql.errors import number_of

NO_SUCH_ACCOUNT = 1141
_GRANT = re.compile(r"""GRANT (?P<privileges>.+?) ON (?P<pattern>\*|(?P<quote>[`"]).+?(?P=quote))\.\* TO """, re.DOTALL)


def account(user: str, host: str) -> str:
    """An account as statements name it."""
    return f"{literal(user)}@{literal(host)}"


def own_account(session: MySQLSession) -> str:
    """The account as which the server runs the session."""
    row = session.run("SELECT CURRENT_USER()").fetchone()
    user, _, host = str(row[0] if row else "").rpartition("@")
    return account(user, host)


def in_backticks(name: str) -> str:
    """An identifier in a form that clients of every sql_mode accept."""
    return "`" + name.replace("`", "``") + "`"


def grant(privileges: str, database: str, grantee: str) -> str:
    """The statement that grants them. GRANT takes a pattern: of `shop_1`, unescaped, `shopA1` would be one as well."""
    pattern = database.replace("\\", "\\\\").replace("_", r"\_").replace("%", r"\%")
    return f"GRANT {privileges} ON {in_backticks(pattern)}.* TO {grantee}"


def granted(session: MySQLSession, grantee: str, database: str) -> set[str]:
    """The account's privileges on all tables of a database. Those of roles are not among them."""
    privileges_found: set[str] = set()
    for pattern, privileges in _granted(session, grantee):
        if pattern == "*" or _covers(pattern, database):
            privileges_found |= {one.strip() for one in privileges.split(",")}
    return privileges_found


def granted_everywhere(session: MySQLSession, grantee: str) -> set[str]:
    """The account's privileges on the whole server. Those of roles are not among them."""
    found = [privileges.split(",") for pattern, privileges in _granted(session, grantee) if pattern == "*"]
    return {one.strip() for privileges in found for one in privileges}


def revokes(session: MySQLSession, grantee: str, everywhere: Collection[str]) -> list[str]:
    """The statements that take back what the account was granted on databases, and of the whole server `everywhere`."""
    statements = []
    for pattern, privileges in _granted(session, grantee):
        on = "*" if pattern == "*" else in_backticks(pattern)
        taken = [one for one in privileges.split(", ") if pattern != "*" or one in everywhere]
        if taken:
            statements.append(f"REVOKE {', '.join(taken)} ON {on}.* FROM {grantee}")
    return statements


def _granted(session: MySQLSession, grantee: str) -> list[tuple[str, str]]:
    """Patterns of databases, `*` for all, and the privileges on each."""
    own = grantee == own_account(session)
    try:
        # Of another account only an administrator may see it, of the own one everybody.
        rows = session.run("SHOW GRANTS" if own else f"SHOW GRANTS FOR {grantee}").fetchall()
    except StatementFailed as error:
        if number_of(error) == NO_SUCH_ACCOUNT:
            return []
        raise
    matches = [match for (text,) in rows if (match := _GRANT.match(text)) is not None]
    return [(_unquoted(match["pattern"]), match["privileges"]) for match in matches]


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote) if quote in '`"' else text


def _covers(pattern: str, database: str) -> bool:
    """Whether `%` and `_` in a grant's pattern match the database's name at their places."""
    expression = re.sub(
        r"\\(.)|(.)",
        lambda match: re.escape(match[1]) if match[1] else {"%": ".*", "_": "."}.get(match[2], re.escape(match[2])),
        pattern,
        flags=re.DOTALL,
    )
    return re.fullmatch(expression, database, re.DOTALL) is not None
