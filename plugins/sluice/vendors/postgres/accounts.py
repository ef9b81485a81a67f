"""Accounts, databases and their contents, for the commands that set up a replication.

Sessions here are of an administrator or of the replication's own account, in autocommit mode.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import psycopg
from psycopg.conninfo import conninfo_to_dict

from sluice import sql_files
from sluice.configuration.resolve import own_tables
from sluice.database.accounts import Content
from sluice.database.addresses import BadAddress, PasswordShown
from sluice.database.session import Session
from sluice.model.connection import ConnectionInfo, option_fault
from sluice.model.issue import Issue, fixes
from sluice.model.names import Prefix
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import literal, native, quoted
from sluice.vendors.postgres.sessions import GRANTABLE_SETTINGS, silence_statement

ADMINISTRATOR = "postgres"
"""The account that every server has initially."""
MAINTENANCE = "postgres"
"""The database that every server has, to connect to before others exist."""
PASSWORD_VARIABLE = "PGPASSWORD"  # noqa: S105
ROUNDS = 4
"""What is granted may show what else is lacking, so often at most."""

FORM = "postgresql://user@host:port/database"
PASSWORDS = "PGPASSWORD, ~/.pgpass (or PGPASSFILE), or asked for"


def parse(url: str, user: str) -> ConnectionInfo:
    """The database that a URL names, as `user` if it names none; without a password.

    Raises `BadAddress`, `PasswordShown`.
    """
    return _read(url, {"user": user})


def located(url: str | None) -> ConnectionInfo:
    """The database that a URL and the variables of libpq name, with the password of PGPASSWORD.

    Raises `BadAddress`, `PasswordShown`.
    """
    of_user = os.environ.get("PGUSER") or os.environ.get("USER", ADMINISTRATOR)
    usual = {
        "user": of_user,
        "host": os.environ.get("PGHOST", "localhost"),
        "port": os.environ.get("PGPORT", "5432"),
        "dbname": os.environ.get("PGDATABASE", ""),
    }
    return replace(_read(url or "postgresql://", usual), password=os.environ.get("PGPASSWORD", ""))


def _read(url: str, usual: Mapping[str, str]) -> ConnectionInfo:
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.ProgrammingError:
        raise BadAddress("The URL", "it cannot be read", FORM) from None  # the driver's text quotes the URL
    if "password" in given:
        raise PasswordShown(given.get("host", "a server"), PASSWORDS)
    parts = {"port": "5432", **usual, **given}
    host, port, database, user = (parts.pop(name, "") for name in ("host", "port", "dbname", "user"))
    if not port.isdecimal():
        raise BadAddress("The URL", "its port is no number", FORM)  # but may be a password
    if "://" not in url or not host or not database:
        raise BadAddress(url, "it needs a host and a database", FORM)
    if fault := option_fault(parts):
        raise BadAddress("The URL", fault.rstrip("."), FORM)
    return ConnectionInfo("postgres", host, int(port), database, user, "", parts)


def password_used(connection: Session) -> str:
    """The password of the session, from the caller, PGPASSWORD or the password file; empty if none was needed."""
    return native(connection).info.password if native(connection).pgconn.used_password else ""


def password_places(info: ConnectionInfo) -> str:
    """The places where the password of `info`'s account is searched, in words."""
    fields = (info.host, str(info.port), info.database, info.user)
    line = ":".join(field.replace("\\", "\\\\").replace(":", "\\:") for field in fields)
    return f"PGPASSWORD or ~/.pgpass (a line {line}:PASSWORD)"


def account_help(role: str) -> str:
    """What to do if an account does not exist, or its password is unknown."""
    name = role if re.fullmatch(r"[a-z_][a-z0-9_]*", role) else quoted(role)  # psql folds what has no quotes
    command = shlex.quote(f"\\password {name}")
    return (
        f"If the account {role} is not there yet, --admin makes it (by hand: docs/privileges.md); if nobody knows its "
        f"password, an administrator gives it a new one: psql -c {command}."
    )


def password_step(role: str) -> str:
    """What a person runs to give a new account its password, as a comment: psql asks for it, and sends its hash."""
    name = role if re.fullmatch(r"[a-z_][a-z0-9_]*", role) else quoted(role)
    return f"-- \\password {name}"


def is_logged_in(connection: Session, role: str) -> bool:
    """Whether the account has a session on the server, in any database."""
    return _one(connection, "SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_activity WHERE usename = %s)", role)


def role_exists(connection: Session, role: str) -> bool:
    """Whether the account exists."""
    return _one(connection, "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %s)", role)


def is_superuser(connection: Session) -> bool:
    """Whether the session's account is a superuser."""
    return _one(connection, "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user")


def database_exists(connection: Session, name: str) -> bool:
    """Whether the database exists."""
    return _one(connection, "SELECT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = %s)", name)


def encoding(connection: Session) -> str:
    """The encoding of the session's database."""
    row = connection.execute("SELECT pg_catalog.current_setting('server_encoding')").fetchone()
    assert row is not None
    return str(row[0])


def create_role(role: str) -> str:
    """The statement that makes an account, without a password."""
    return f"CREATE ROLE {quoted(role)} LOGIN"


def create_database(name: str, owner: str, encoding: str) -> str:
    """The statement that makes a slave's database."""
    return f"CREATE DATABASE {quoted(name)} OWNER {quoted(owner)} ENCODING '{encoding}' TEMPLATE template0"


def of_new_database(connection: Session, role: str, database: str) -> list[str]:
    """The statements for a new database: its owner lacks only the right to switch off triggers."""
    return [silence_statement(quoted(role), quoted(database), native(connection).info.server_version)]


def set_password(connection: Session, role: str, password: str) -> None:
    """Sets a password. Sends only its hash, because many servers log statements."""
    hashed = native(connection).pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    connection.execute(f"ALTER ROLE {quoted(role)} PASSWORD '{hashed}'".encode())


def run(connection: Session, statements: Iterable[str]) -> None:
    """Runs statements, in the form in which they are printed."""
    for statement in statements:
        connection.execute(statement.encode())


def fixed(connection: Session, role: str, created: bool, current_issues: Callable[[], list[Issue]]) -> list[str]:
    """See `Accounts`. Runs the statements in a transaction and rolls it back."""
    kept = [] if created else [create_role(role)]
    with native(connection).transaction(force_rollback=True):
        run(connection, kept)
        for _ in range(ROUNDS):
            with _acting_as(connection, role):
                issues = current_issues()
            more = fixes(issues, kept)
            if not more:
                break
            run(connection, more)
            kept += more
    return kept


@contextmanager
def _acting_as(connection: Session, role: str) -> Iterator[None]:
    """Within the block the session has the privileges of `role`."""
    connection.execute(f"SET ROLE {quoted(role)}".encode())
    try:
        yield
    finally:
        if native(connection).info.transaction_status != psycopg.pq.TransactionStatus.INERROR:
            connection.execute("RESET ROLE")


def inventory(connection: Session) -> list[Content]:
    """The contents of the database by schema, without Sluice's tables."""
    own = catalog.pairs(sorted(own_tables(catalog.tables(connection))))
    rows = connection.execute(sql_files.render("postgres", "inventory"), own).fetchall()
    return [Content(schema, tables, count, tuple(owners)) for schema, tables, count, owners in rows]


def remove_slave(connection: Session, prefix: Prefix, schema: str, slave: str) -> None:
    """Drops Sluice's tables of the slave; keeps the replicated tables."""
    names = {"prefix": prefix.lower, "schema": quoted(schema), "slave": literal(slave)}
    with connection.transaction():
        connection.execute(sql_files.render("postgres", "slave_uninstall", **names))


def revokes(connection: Session, role: str) -> list[str]:
    """The statements that revoke all privileges of `role` in this database, and on settings."""
    files = (
        ["revokes", "revokes_settings"] if native(connection).info.server_version >= GRANTABLE_SETTINGS else ["revokes"]
    )
    granted = [connection.execute(sql_files.render("postgres", name), {"role": role}).fetchall() for name in files]
    return [str(statement) for rows in granted for (statement,) in rows]


def _one(connection: Session, query: str, *values: object) -> bool:
    row = connection.execute(query.encode(), values or None).fetchone()
    return bool(row and row[0])
