"""What PostgreSQL's catalog says about the account of a session and its privileges. Reads only; takes no lock.

Everything is said of `current_user`: an administrator learns it for another account after `SET ROLE`.
"""

import secrets
import select
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import native

OLDEST = 140000
"""The oldest server that is supported, as `server_version_num`."""
FUNCTIONS: tuple[str, ...] = (
    "pg_control_system",
    "pg_current_snapshot",
    "pg_current_wal_flush_lsn",
    "pg_current_wal_insert_lsn",
    "pg_current_xact_id",
    "pg_export_snapshot",
    "pg_logical_emit_message",
    "pg_sequence_last_value",
    "pg_visible_in_snapshot",
    "pg_walfile_name",
    "set_config",
)
"""PostgreSQL's own functions that replication calls and hardening guides revoke, or might."""


@dataclass(frozen=True)
class Account:
    """The account of a session, in its database, on its server. Names are quoted where they need it."""

    role: str
    database: str
    superuser: bool
    powers: tuple[str, ...]
    """Roles that it may become, quoted, that are superusers or may run programs or access files on the server."""
    may_connect: bool
    may_make_temporary: bool
    may_create: bool
    """CREATE on the database: schemas, and extensions that are trusted."""
    may_use_plpgsql: bool | None
    """None: the database does not have the language."""
    sees_others: bool
    """pg_read_all_stats."""
    standby: bool
    encoding: str
    version: int
    room: int
    """Connections that the account can still open."""
    room_limit: str
    """What limits them."""
    missing_functions: tuple[str, ...]
    """Signatures of those of `FUNCTIONS` that it may not execute."""
    ahead: float
    """Seconds by which the server's clock is ahead of this machine's."""
    uncertain: float
    """Seconds by which `ahead` may be wrong."""
    session_shared: bool = False
    """Whether a pooler lets other clients use the account's session between two transactions."""


@dataclass(frozen=True)
class Schema:
    """A schema that the configuration or a table names."""

    name: str
    quoted: str
    owner: str | None
    """None: the schema does not exist."""
    usage: bool
    create: bool


@dataclass(frozen=True)
class Relation:
    """A table, or a partition of any level."""

    table: TableName
    """The replicated table; for a partition the table it belongs to."""
    partition: bool
    schema: str
    quoted: str
    owner: str
    partitioned: bool
    owned: bool
    """Whether the account has the owner's rights."""
    owned_by_superuser: bool
    privileges: frozenset[str]
    rows_hidden: bool
    """Whether row level security applies to the account."""
    old_values_wanted: bool
    """A publication needs the old values of updated or deleted rows, and the table has no replica identity."""


@dataclass(frozen=True)
class FuturePrivileges:
    """The privileges that an owner's future tables and sequences in a schema will lack."""

    schema: str
    quoted: str
    owner: str
    tables: bool
    sequences: bool


@dataclass(frozen=True)
class Foreign:
    """An object with one of Sluice's names that belongs to another account."""

    kind: str
    """The kind of object, as ALTER names it."""
    quoted: str
    owner: str
    owned_by_superuser: bool


def account(connection: Session) -> Account:
    """The session's account. Raises psycopg's errors."""
    statement = sql_files.render("postgres", "preflight_account")
    before = time.time()
    row: Any = connection.execute(statement, {"functions": list(FUNCTIONS)}).fetchone()
    after = time.time()
    assert row is not None
    clock: datetime = row[-1]
    ahead = clock.timestamp() - (before + after) / 2
    shared = session_shared(native(connection))
    return Account(*(*row[:3], tuple(row[3]), *row[4:-2], tuple(row[-2]), ahead, (after - before) / 2, shared))


def session_shared(connection: psycopg.Connection[Any]) -> bool:
    """Whether a pooler in front of the server lets other clients use a session between two transactions, as PgBouncer
    does with `pool_mode = transaction`. Opens two more sessions if there is a pooler."""
    pid = connection.execute("SELECT pg_catalog.pg_backend_pid()").fetchone()
    if pid == (connection.info.backend_pid,):
        return False
    parameters: Any = {**connection.info.get_parameters(), "password": connection.info.password, "autocommit": True}
    mark = secrets.token_hex(8)
    with closing(psycopg.connect(**parameters)) as marked, closing(psycopg.connect(**parameters)) as other:
        marked.execute("SELECT pg_catalog.set_config('sluice.session_mark', %s, false)", [mark])
        other.pgconn.send_query(b"SELECT pg_catalog.current_setting('sluice.session_mark', true)")
        # Where each client has its own session, this one may wait until the pooler has one to spare.
        if not select.select([other.fileno()], [], [], _POOLER_SECONDS)[0]:
            return False
        result = other.pgconn.get_result()
        return result is not None and result.get_value(0, 0) == mark.encode()


_POOLER_SECONDS = 5.0


def role(connection: Session) -> str:
    """The account's name, quoted where it needs it."""
    row = connection.execute("SELECT pg_catalog.quote_ident(current_user)").fetchone()
    assert row is not None
    return str(row[0])


def logged_in(connection: Session) -> bool:
    """Whether the session's account is the one that logged in.

    Not after an administrator's `SET ROLE`: code of that role, which reading one of its tables or calling one of its
    functions may run, could `RESET ROLE` and continue with the administrator's rights.
    """
    row = connection.execute("SELECT session_user OPERATOR(pg_catalog.=) current_user").fetchone()
    return row is not None and bool(row[0])


def schemas(connection: Session, names: Iterable[str]) -> list[Schema]:
    """One entry for each of `names`, by name."""
    statement = sql_files.render("postgres", "preflight_schemas")
    return [Schema(*row) for row in connection.execute(statement, {"schemas": sorted(set(names))}).fetchall()]


def relations(connection: Session, tables: Sequence[TableName]) -> list[Relation]:
    """Those of `tables` that exist, and their partitions."""
    rows = connection.execute(sql_files.render("postgres", "preflight_tables"), catalog.pairs(tables)).fetchall()
    return [Relation(*(TableName(row[0], row[1]), *row[2:-3], frozenset(row[-3]), *row[-2:])) for row in rows]


def future_privileges(connection: Session, owners: Iterable[tuple[str, str]]) -> list[FuturePrivileges]:
    """Of `owners` (schema, quoted role) those whose future tables or sequences the account could not read."""
    roles = sorted(set(owners))
    rows = connection.execute(
        sql_files.render("postgres", "preflight_default_privileges"),
        {"schemas": [schema for schema, _ in roles], "owners": [owner for _, owner in roles]},
    ).fetchall()
    return [FuturePrivileges(*row) for row in rows]


def captures(connection: Session) -> list[tuple[str, str]]:
    """ITEMS and account, quoted, of captures in this database whose account this one is no member of."""
    return list(connection.execute(sql_files.render("postgres", "preflight_captures").encode()).fetchall())


def foreign(
    connection: Session,
    schema: str,
    relations: Iterable[str],
    functions: Iterable[str] = (),
    captures: str | None = None,
) -> list[Foreign]:
    """Objects in `schema` under Sluice's names that belong to another account.

    `captures`: how names of trigger functions begin; None: there are none.
    """
    rows = connection.execute(
        sql_files.render("postgres", "preflight_owned"),
        {"schema": schema, "relations": list(relations), "functions": list(functions), "captures": captures},
    ).fetchall()
    return [Foreign(*row) for row in rows]
