"""Makes the database of a rehearsal: from files, or from the definitions of a master that is read and not changed.

Of a master come roles without passwords, settings of roles and of the database, extensions, all definitions, and the
list of captured tables, so that what Sluice has there can be removed from the copy as from a master that leaves. Rows
come only if asked for, see `rows`.
"""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import psycopg
from psycopg import sql

from devstack.postgres import SUPERUSER, PostgresServer, binary
from devstack.rehearse.psql import environment, run_file
from devstack.rehearse.script import text_of
from sluice.capture.uninstall import uninstall
from sluice.configuration.resolve import own_tables
from sluice.database.rows import Estimate
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect, quoted
from sluice.vendors.postgres.source.resources import PostgresCapture

LOCK_TIMEOUT = "5s"
"""How long reading definitions may wait for a lock of the master."""
_ROLE = r'(?:"(?:[^"]|"")+"|[\w$]+)'
_ROLES = re.compile(
    r"\b(?:OWNER TO|GRANT\b[^;]*?\bTO|REVOKE\b[^;]*?\bFROM|CREATE POLICY\b[^;()]*?\bTO|FOR (?:ROLE|USER)|SET ROLE"
    rf"|AUTHORIZATION)\s+({_ROLE}(?:\s*,\s*{_ROLE})*)",
    re.IGNORECASE,
)
_NO_ROLES = {"public", "current_user", "current_role", "session_user", "group", "default", "none"}
_NEWER = re.compile(
    rb"^SET (transaction_timeout|default_table_access_method|idle_in_transaction\w*) = .*$", re.MULTILINE
)
"""Settings in the head of a dump of the newest release that older servers do not know, and that define nothing."""


class NotMade(Terminal):
    """The definitions cannot be made on a throw-away server."""

    def __init__(self, place: object, output: str):
        super().__init__(f"{place} ends with an error, before any script ran: {output.strip()[-1000:]}")


def from_files(server: PostgresServer, database: str, files: Iterable[Path], user: str) -> None:
    """Makes the database, the roles that the files name, and what the files define. Raises `NotMade`."""
    server.create_database(database)
    for file in files:
        for role in roles_of(text_of(file)):
            _make_role(server, role)
    for file in files:
        _run(server, database, file, file)
    _let_in(server, user)


def _run(server: PostgresServer, database: str, file: Path, place: object) -> None:
    output = run_file(server.info(database), file, ("-q", "-v", "ON_ERROR_STOP=on"))
    if re.search(r"^(psql:.*)?(ERROR|FATAL|error):", output, re.MULTILINE):
        raise NotMade(place, output)


def roles_of(text: str) -> list[str]:
    """The roles that definitions give something to; `pg_dump` does not make them."""
    given = [name for names in _ROLES.findall(text) for name in re.findall(_ROLE, names)]
    names = [name[1:-1].replace('""', '"') if name[0] == '"' else name.lower() for name in given]
    made = {name.lower().strip('"') for name in re.findall(r'CREATE (?:ROLE|USER)\s+("[^"]+"|[\w$]+)', text, re.I)}
    return sorted({name for name in names if name not in _NO_ROLES | made and not name.startswith("pg_")})


def _let_in(server: PostgresServer, user: str) -> None:
    """Lets the role log in, which definitions may have made without a password."""
    if user != SUPERUSER:
        server.create_role(user)
        with server.connect() as connection:
            names = sql.Identifier(user), sql.Literal(server.info(user=user).password)
            connection.execute(sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(*names))


def _make_role(server: PostgresServer, role: str) -> None:
    with server.connect() as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
            connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))


def release_of(master: ConnectionInfo) -> int:
    """The master's release of PostgreSQL, such as 16. Raises the errors of the session."""
    with connect(master, application="sluice rehearsal", autocommit=True) as connection:
        return connection.info.server_version // 10000


def from_master(server: PostgresServer, master: ConnectionInfo, folder: Path, user: str) -> dict[TableName, Estimate]:
    """Makes the master's database on the server, and returns how large the master's tables are. Raises
    `master-not-readable`, `NotMade`, and errors of the sessions.
    """
    dump, roles = folder / "definitions.sql", folder / "roles.sql"
    _read(master, ["pg_dumpall", "--roles-only", "--no-role-passwords", "-f", str(roles)])
    options = ["--schema-only", "--no-subscriptions", "--no-tablespaces", f"--lock-wait-timeout={LOCK_TIMEOUT}"]
    _read(master, ["pg_dump", *options, "-f", str(dump)])
    dump.write_bytes(_NEWER.sub(b"", dump.read_bytes()))
    run_file(server.info(), roles)  # `CREATE ROLE postgres` fails, and nothing else should
    server.create_database(master.database)
    # The public schema comes with the database, and with the dump if its owner or rights were changed.
    _run(server, master.database, dump, f"The dump of {master.database}")
    _let_in(server, user)
    with connect(master, application="sluice rehearsal", autocommit=True) as connection:
        settings = connection.execute(
            "SELECT coalesce(r.rolname, ''), s.setdatabase <> 0, s.setconfig FROM pg_catalog.pg_db_role_setting s "
            "LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole LEFT JOIN pg_catalog.pg_database d "
            "ON d.oid = s.setdatabase WHERE s.setdatabase = 0 AND s.setrole <> 0 OR d.datname = current_database()"
        ).fetchall()
        _leave(server, connection, master.database)
        sizes = catalog.estimates(connection, catalog.tables(connection))
    with server.connect(master.database) as made:
        made.execute("DELETE FROM pg_catalog.pg_db_role_setting")
        for role, of_database, texts in settings:
            # ALTER … SET would quote lists such as a search_path otherwise than they are stored.
            made.execute(
                "INSERT INTO pg_catalog.pg_db_role_setting SELECT CASE WHEN %s THEN d.oid ELSE 0 END, "
                "coalesce((SELECT oid FROM pg_catalog.pg_roles WHERE rolname = %s), 0), %s::text[] "
                "FROM pg_catalog.pg_database d WHERE d.datname = current_database()",
                [of_database, role, texts],
            )
    return sizes


def _read(master: ConnectionInfo, command: list[str]) -> None:
    done = subprocess.run(
        [str(binary(command[0])), *command[1:]],
        env={**environment(master), "PGAPPNAME": "sluice rehearsal"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Terminal(
            f"The definitions of {master.database} at {master.host}:{master.port} cannot be read: "
            f"{done.stderr.strip()[-1000:]} Nothing was changed there.",
            code="master-not-readable",
        )


def _leave(server: PostgresServer, master: "psycopg.Connection[tuple[object, ...]]", database: str) -> None:
    """Removes every prefix of Sluice from the copy, as from a master that leaves."""
    info = server.info(database)
    with connect(info, application="sluice rehearsal", autocommit=True) as copy:
        for own in sorted(own_tables(catalog.tables(copy))):
            if own.name.endswith("tables"):
                _copy_list(master, copy, own)
                prefix = Prefix(own.name.removesuffix("tables"))
                PostgresCapture(copy, prefix, own.schema).remove_event_triggers()
                uninstall(copy, prefix, own.schema)


def _copy_list(
    master: "psycopg.Connection[tuple[object, ...]]", copy: "psycopg.Connection[tuple[object, ...]]", table: TableName
) -> None:
    """Copies which tables a prefix captures."""
    name = quoted(table.schema, table.name)
    with copy.transaction():
        copy.execute("SET LOCAL session_replication_role = replica")
        with (
            master.cursor().copy(f"COPY {name} TO STDOUT".encode()) as reading,
            copy.cursor().copy(f"COPY {name} FROM STDIN".encode()) as writing,
        ):
            for part in reading:
                writing.write(part)
