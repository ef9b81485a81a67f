"""The command as a whole: servers, definitions, replication, scripts, report."""

import argparse
import json
import logging
import re
import sys
from contextlib import ExitStack
from pathlib import Path

import psycopg
from psycopg import sql

from devstack.postgres import PostgresServer
from devstack.postgres_releases import NEWEST
from devstack.rehearse.course import Course, Place, scripts_of
from devstack.rehearse.page import page
from devstack.rehearse.psql import run_file
from devstack.rehearse.replica import Replica
from devstack.rehearse.report import lines
from devstack.rehearse.servers import CAPTURED, PLAIN, SLAVE, Servers
from sluice import config
from sluice.config import Replication
from sluice.errors import SluiceError, Terminal
from sluice.pair import Pair
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect, quoted

FAILED = 2
_ROLES = re.compile(r'\b(?:OWNER TO|GRANT\b[^;]*?\bTO|FOR ROLE|AUTHORIZATION)\s+("(?:[^"]|"")+"|[\w$]+)', re.IGNORECASE)
_NO_ROLES = {"public", "current_user", "current_role", "session_user", "group", "default"}


class NotMade(Terminal):
    """The definitions cannot be made on a throw-away server."""

    def __init__(self, file: Path, output: str):
        super().__init__(f"{file} ends with an error, before any script ran: {output.strip()[-1000:]}")


def run(args: argparse.Namespace) -> int:
    """Returns the exit status. Prints errors."""
    logging.getLogger("sluice").setLevel(logging.CRITICAL)
    try:
        with ExitStack() as stack:
            return rehearse(args, stack)
    except (SluiceError, psycopg.Error, OSError) as error:
        print(f"sluice: the rehearsal failed: {error}", file=sys.stderr)
        return FAILED


def rehearse(args: argparse.Namespace, stack: ExitStack) -> int:
    """Raises `SluiceError` and the errors of psycopg and of the system."""
    scripts = scripts_of([_there(Path(name)) for name in args.given])
    if not scripts:
        raise Terminal("There is nothing to rehearse: name the scripts.")
    schema = [_there(Path(name)) for name in args.schema]

    def say(line: str) -> None:
        if not args.quiet:
            print(f"… {line}", file=sys.stderr, flush=True)

    settings = dict(text.partition("=")[::2] for text in args.setting)
    release = args.postgres or NEWEST
    say(f"servers of PostgreSQL {release}")
    servers = Servers(stack, release, settings)
    servers.start()
    database = args.database or "rehearsal"
    for name in (PLAIN, CAPTURED):
        make_database(servers.postgres[name], database, schema, args.user)
    say("capture and the slave's first load")
    replication = _replication(servers, database)
    replicas = []
    for name, slave in replication.slaves.items():
        server = servers.postgres[SLAVE]
        server.create_database(name)
        infos = {
            replication.master.conn_id: servers.postgres[CAPTURED].info(database),
            slave.conn_id: server.info(name),
        }
        replicas.append(Replica(Pair.of(replication, name, infos), servers.redis.url, args.event_triggers))
    for replica in replicas:
        replica.begin(stack)
    plain, captured = (
        Place(servers.postgres[name], database, args.user, args.single_transaction) for name in (PLAIN, CAPTURED)
    )
    own = (replication.prefix.lower, replication.master.schema)
    course = Course(plain, captured, replicas, own, args.wait)
    report = course.run(", ".join(name for name, _ in scripts), scripts, say)
    if args.html:
        Path(args.html).write_text(page(report), encoding="utf-8")
    if args.json:
        Path(args.json).write_text(json.dumps(report.as_dict(), indent=1), encoding="utf-8")
    shown = lines(report)
    print("\n".join(shown if not args.quiet else shown[-1 - len(report.findings) :]))
    return 1 if report.findings else 0


def _there(file: Path) -> Path:
    if not file.is_file():
        raise Terminal(f"There is no file {file}.")
    return file


def make_database(server: PostgresServer, database: str, files: list[Path], user: str) -> None:
    """Makes the database, the roles that the files name, and what the files define. Raises `NotMade`."""
    server.create_database(database)
    for file in files:
        for role in roles_of(file.read_text(encoding="utf-8-sig")):
            _make_role(server, role)
    if user != "postgres":
        server.create_role(user)
    for file in files:
        output = run_file(server.info(database), file, ("-q", "-v", "ON_ERROR_STOP=on"))
        if re.search(r"^(ERROR|FATAL):|^psql:.*(ERROR|FATAL|error):", output, re.MULTILINE):
            raise NotMade(file, output)


def roles_of(text: str) -> list[str]:
    """The roles that definitions give something to; `pg_dump` does not make them."""
    names = [name[1:-1].replace('""', '"') if name[0] == '"' else name.lower() for name in _ROLES.findall(text)]
    made = {name.lower().strip('"') for name in re.findall(r'CREATE (?:ROLE|USER)\s+("[^"]+"|[\w$]+)', text, re.I)}
    return sorted({name for name in names if name not in _NO_ROLES | made and not name.startswith("pg_")})


def _make_role(server: PostgresServer, role: str) -> None:
    with server.connect() as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
            connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))


def _replication(servers: Servers, database: str) -> Replication:
    """A replication of every table, for definitions that no configuration belongs to."""
    with connect(servers.postgres[CAPTURED].info(database), application="sluice rehearsal", autocommit=True) as master:
        schemas = sorted({table.schema for table in catalog.tables(master)} | {"public"})
    tables = "".join(f"  {json.dumps(quoted(schema) + '.*')}: {{}}\n" for schema in schemas)
    text = f"""prefix: REHEARSAL_
master: {{conn_id: master, schema: sluice}}
slaves:
  slave: {{conn_id: slave, schema: sluice}}
tables:
{tables}apply: {{checkpoint_interval: 0.1}}
"""
    return config.checked(servers.folder / "REHEARSAL.yaml", text)
