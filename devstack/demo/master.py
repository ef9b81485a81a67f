"""The demo's master: its database, its roles and its tables."""

import re
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from devstack.demo.accounts import ACCOUNT, DATABASE, OWNER, PREFIX, SCHEMA
from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.vendors.postgres.connection import quoted
from workload import pgbench, tables, zoo

SQL = Path(tables.__file__).parent / "sql"
SCHEMAS = ("public", "Mixed Case")
"""The schemas of the tables."""
SINCE = {"negative_scales": 150000, "infinite_intervals": 170000}
"""Features of `type_zoo.sql` with the oldest server version that has each."""
Connection = psycopg.Connection[Any]

_OPTIONAL = re.compile(r"^ *-- if (\w+)\n(.*?)^ *-- end\n", re.MULTILINE | re.DOTALL)


def make(server: PostgresServer, scale: int, portable: bool = False) -> None:
    """Drops and makes the database, its roles, and every table of the demo with its first rows.

    `portable`: without values that only PostgreSQL can store. Raises `PgbenchFailed` and psycopg's errors.
    """
    server.create_role(OWNER)
    server.create_role(ACCOUNT)
    recreate_database(server, OWNER)
    with server.connect(DATABASE) as admin:
        features = install_hstore(admin)
        admin.execute(sql.SQL("ALTER SCHEMA public OWNER TO {}").format(sql.Identifier(OWNER)))
    with server.connect(DATABASE, OWNER) as owner:
        features |= {"xml"} if _has_xml(owner) else set()
        features |= {name for name, version in SINCE.items() if owner.info.server_version >= version}
        for name in ("types", "type_zoo", "odd_names", "shop"):
            owner.execute(script(name, features))
        owner.execute(tables.DDL.encode())
        owner.execute(script("shop_rows", features))
        _fill_zoo(owner, portable)
    pgbench.make_tables(server.info(DATABASE, OWNER), server.directory / "passwords", scale)
    with server.connect(DATABASE) as admin:
        grant(admin)


def grant(admin: Connection) -> None:
    """Grants the replication account its rights in each schema. It owns none of the tables."""
    names = {"role": quoted(ACCOUNT), "schema": quoted(SCHEMA), "owner": quoted(OWNER)}
    for schema in SCHEMAS:
        admin.execute(sql_files.render("postgres", "grants", tables=quoted(schema), **names))


def make_event_triggers(server: PostgresServer) -> bool:
    """Makes the event triggers that report DDL, as an administrator does. Returns False before the installation.

    Raises psycopg's errors.
    """
    with server.connect(DATABASE) as admin:
        function = f"{quoted(SCHEMA)}.{PREFIX.lower()}ddl_end()"
        row = admin.execute("SELECT pg_catalog.to_regprocedure(%s) IS NOT NULL", [function]).fetchone()
        if row is None or not row[0]:
            return False
        admin.execute(sql_files.render("postgres", "event_triggers", prefix=PREFIX.lower(), schema=quoted(SCHEMA)))
        return True


def recreate_database(server: PostgresServer, owner: str) -> None:
    """Drops the demo's database, ends its sessions and prepared transactions, and makes it again."""
    with server.connect() as admin:
        prepared = admin.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", [DATABASE]).fetchall()
        if prepared:  # they block DROP DATABASE; only a session in the database can end them
            with server.connect(DATABASE) as inside:
                for (gid,) in prepared:
                    inside.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
        name = sql.Identifier(DATABASE)
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, sql.Identifier(owner)))


def install_hstore(admin: Connection) -> set[str]:
    """Installs the extension hstore and returns {"hstore"}, or an empty set if the server does not have it."""
    if not admin.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'hstore'").fetchone():
        return set()
    admin.execute("CREATE EXTENSION IF NOT EXISTS hstore SCHEMA public")
    return {"hstore"}


def script(name: str, features: set[str]) -> str:
    """Returns the text of `sql/<name>.sql` without the optional lines of features that the server does not have."""
    text = (SQL / f"{name}.sql").read_text()
    return _OPTIONAL.sub(lambda match: match.group(2) if match.group(1) in features else "", text)


def _fill_zoo(owner: Connection, portable: bool) -> None:
    columns = zoo.columns(owner)
    rows = zoo.first_rows(columns, portable)
    insert = sql.SQL("INSERT INTO public.type_zoo (id, {}) VALUES (%s, {})").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join([sql.Placeholder()] * len(columns))
    )
    with owner.transaction(), owner.cursor() as cursor:
        cursor.executemany(insert, [[number, *row.values()] for number, row in enumerate(rows, 1)])


def _has_xml(connection: Connection) -> bool:
    """Whether the server was built with libxml. Without it the type exists but accepts no value."""
    try:
        connection.execute("SELECT '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        return False
    return True
