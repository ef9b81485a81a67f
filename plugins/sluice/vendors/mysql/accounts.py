"""Accounts and databases of a slave's server (`sluice.database.accounts.Accounts`).

Every statement on accounts commits by itself: what ends half-way goes on with the next run.
"""

import hashlib
from collections.abc import Callable, Iterable

from sluice import sql_files
from sluice.database import addresses
from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo
from sluice.model.lack import Lack, mending
from sluice.model.names import Prefix
from sluice.vendors.mysql import grants
from sluice.vendors.mysql.connection import literal, native, quoted
from sluice.vendors.mysql.preflight import PRIVILEGES
from sluice.vendors.mysql.target.control_tables import TABLES, MySQLTables

ADMINISTRATOR = "root"
MAINTENANCE = "information_schema"
"""Everybody may enter it."""
PASSWORD_VARIABLE = "MYSQL_PWD"  # noqa: S105
ANYWHERE = "%"
"""The host from which a created account may connect."""


def parse(url: str, user: str) -> ConnectionInfo:
    """Raises `BadAddress`, `PasswordShown`."""
    return addresses.parsed(url, "mysql", user, f"{PASSWORD_VARIABLE}, or asked for")


def password_used(connection: Session) -> str:
    """No file has one: it came from the caller."""
    return native(connection).info.password


def password_places(info: ConnectionInfo) -> str:
    del info
    return PASSWORD_VARIABLE


def account_help(role: str) -> str:
    return (
        f"If the account {role} is not there yet, --admin makes it (by hand: docs/mariadb.md); if nobody knows its "
        f"password, an administrator gives it a new one: ALTER USER {grants.account(role, ANYWHERE)} IDENTIFIED BY '…' "
        "ACCOUNT UNLOCK."
    )


def is_logged_in(connection: Session, role: str) -> bool:
    query = "SELECT 1 FROM information_schema.processlist WHERE user = %s LIMIT 1"
    return bool(native(connection).run(query, [role]).fetchall())


def role_exists(connection: Session, role: str) -> bool:
    """Whether the account exists, for any host."""
    return bool(native(connection).run("SELECT 1 FROM mysql.user WHERE user = %s LIMIT 1", [role]).fetchall())


def database_exists(connection: Session, name: str) -> bool:
    query = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
    return bool(native(connection).run(query, [name]).fetchall())


def create_role(role: str) -> str:
    """Creates the account locked until `set_password`: without a password everybody could log in."""
    return f"CREATE USER {grants.account(role, ANYWHERE)} ACCOUNT LOCK"


def password_step(role: str) -> str:
    """What a person runs to give a new account its password, as a comment."""
    account = grants.account(role, ANYWHERE)
    return f"-- ALTER USER {account} IDENTIFIED BY '…' ACCOUNT UNLOCK;"


def create_database(name: str, owner: str, encoding: str) -> str:
    """Databases have no owner; tables name their character set."""
    del owner, encoding
    return f"CREATE DATABASE {grants.in_backticks(name)}"


def of_new_database(connection: Session, role: str, database: str) -> list[str]:
    del connection
    privileges = ", ".join([*PRIVILEGES, "TRIGGER"])
    return [grants.grant(privileges, database, grants.account(role, ANYWHERE))]


def set_password(connection: Session, role: str, password: str) -> None:
    """Sets a password. MariaDB gets its hash; MySQL, which computes hashes only itself, does not log it."""
    session = native(connection)
    account = grants.account(role, ANYWHERE)
    if session.mariadb:
        once = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
        hashed = hashlib.sha1(once, usedforsecurity=False).hexdigest().upper()
        session.run(f"ALTER USER {account} IDENTIFIED BY PASSWORD '*{hashed}' ACCOUNT UNLOCK")
    else:
        session.run(f"ALTER USER {account} IDENTIFIED BY {literal(password)} ACCOUNT UNLOCK")


def run(connection: Session, statements: Iterable[str]) -> None:
    for statement in statements:
        native(connection).run(statement)


def mended(connection: Session, role: str, made: bool, current_lacks: Callable[[], list[Lack]]) -> list[str]:
    """Nothing can be tried, so the account's grants are read; one read finds all lacks."""
    session = native(connection)
    kept = [] if made else [create_role(role)]
    session.prepared_account = _account_of(session, role) if made else grants.account(role, ANYWHERE)
    try:
        return kept + mending(current_lacks(), kept)
    finally:
        session.prepared_account = None


def remove_slave(connection: Session, prefix: Prefix, schema: str, slave: str) -> None:
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


def revokes(connection: Session, role: str) -> list[str]:
    """The privileges on all databases: each schema of the master but one is a database of its own."""
    session = native(connection)
    own = role == session.info.user
    return grants.revokes(session, grants.own_account(session) if own else _account_of(session, role))


def _account_of(connection: Session, role: str) -> str:
    """The account of that name: the one that may come from anywhere, where there are several."""
    session = native(connection)
    rows = session.run("SELECT host FROM mysql.user WHERE user = %s ORDER BY host <> '%%', host", [role]).fetchall()
    return grants.account(role, rows[0][0] if rows else ANYWHERE)
