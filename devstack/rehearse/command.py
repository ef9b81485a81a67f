"""The command as a whole: servers, definitions, rows, replication, scripts, report."""

import argparse
import errno
import getpass
import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from devstack.connections import Connections as OfStack
from devstack.home import Home
from devstack.postgres_releases import NEWEST, RELEASES
from devstack.rehearse import definitions, rows
from devstack.rehearse.course import Course, Place, Say, Script, scripts_of
from devstack.rehearse.replica import Replica
from devstack.rehearse.report import lines
from devstack.rehearse.script import Kind, Statement, read
from devstack.rehearse.servers import CAPTURED, PLAIN, Servers
from devstack.rehearse.writers import accepted, statements_of
from devstack.stack import Stack
from sluice import config
from sluice.airflow import kept_rehearsals
from sluice.cli.connections import Connections
from sluice.configuration.model import Replication
from sluice.counted import counted
from sluice.database.rows import Estimate
from sluice.errors import SluiceError, Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.pair import Pair
from sluice.vendors.postgres import accounts, catalog
from sluice.vendors.postgres.connection import connect, quoted
from sluice.verify.rehearsal import Report, page, rehearsable

FAILED = 2
DATABASE = "rehearsal"
"""Where no master has a name for it."""
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Origin:
    """What a rehearsal is a copy of."""

    replication: Replication | None
    """None: of every table, for definitions that no configuration belongs to."""
    master: ConnectionInfo | None
    """Read for definitions, and for rows if asked for; None with files of definitions alone."""
    files: list[Path]
    release: int

    @property
    def database(self) -> str:
        return self.master.database if self.master else DATABASE


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

    def say(line: str) -> None:
        if not args.quiet:
            print(f"… {line}", file=sys.stderr, flush=True)

    for file in filter(None, (args.html, args.json)):
        Path(file).touch()  # a place that cannot be written is known before the scripts run
    given = list(args.given)
    prefix = given.pop(0) if given and _PREFIX.fullmatch(given[0]) and not Path(given[0]).exists() else None
    scripts = _scripts(args, given)
    origin = _origin(args, prefix)
    if args.keep:
        _may_keep(origin)
    began = datetime.now(UTC)
    report = _rehearsed(args, origin, scripts, stack, say)
    report.began = began.isoformat(timespec="seconds")
    if args.html:
        Path(args.html).write_text(page(report), encoding="utf-8")
    if args.json:
        Path(args.json).write_text(json.dumps(report.as_dict(), indent=1), encoding="utf-8")
    if args.keep and origin.replication:
        name = kept_rehearsals.keep(report, origin.replication, _user(), Home().root)
        say(f"kept as {name}: the page of the master on the monitor has it")
    shown = lines(report)
    print("\n".join(shown[-1 - len(report.findings) :] if args.quiet else shown))
    return 1 if report.findings else 0


def _may_keep(origin: Origin) -> None:
    """Raises `report-refused`, and `OSError` for a state folder that cannot be written: before the scripts run."""
    if origin.replication is None:
        raise Terminal(
            "--keep wants the PREFIX of a replication: the report is kept with it, and says what happens with its "
            "configuration. Name it before the scripts, with --schema also where its master is out of reach.",
            code="report-refused",
        )
    folder = kept_rehearsals.folder_in(Home().root, origin.replication.prefix)
    kept_rehearsals.make(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "--keep cannot write there", str(folder))


def _user() -> str:
    """Who keeps a report."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's number without a name
        return f"user {os.getuid()}"


def _rehearsed(args: argparse.Namespace, origin: Origin, scripts: list[Script], stack: ExitStack, say: Say) -> Report:
    say(f"servers of PostgreSQL {origin.release}")
    settings = dict(text.partition("=")[::2] for text in args.setting)
    vendor = "mysql" if args.slave == "mariadb" else "postgres"
    vendors = [slave.vendor for slave in origin.replication.slaves.values()] if origin.replication else [vendor]
    servers = Servers(stack, origin.release, settings, vendors)
    servers.start()
    database, plain = args.database or origin.database, servers.postgres[PLAIN]
    sizes: Mapping[TableName, Estimate] = {}
    if origin.files:
        definitions.from_files(plain, database, origin.files, args.user)
    elif origin.master is not None:
        say(f"definitions of {origin.master.database} at {origin.master.host}:{origin.master.port}")
        sizes = definitions.from_master(plain, origin.master, servers.folder, args.user)
        database = origin.master.database
    notes, given_rows = _fill(args, origin, plain.info(database))
    servers.start_captured()
    say("capture and the slave's first load")
    replication = origin.replication or _of_every_table(servers, database, vendor)
    replicas = [_replica(args, servers, replication, name, database) for name in replication.slaves]
    for replica in replicas:
        replica.begin(stack)
    writes = _writes(args, plain.info(database))
    one, other = (
        Place(servers.postgres[name], database, args.user, args.single_transaction, args.writers, writes)
        for name in (PLAIN, CAPTURED)
    )
    own = (replication.prefix.lower, replication.master.schema)
    report = Course(one, other, replicas, own, args.wait, sizes).run(
        ", ".join(name for name, _ in scripts), scripts, say
    )
    report.notes, report.given_rows = notes, given_rows
    report.prefix = str(origin.replication.prefix) if origin.replication else ""
    return report


def _scripts(args: argparse.Namespace, given: list[str]) -> list[Script]:
    """What is rehearsed. Raises `Terminal` if it is not there, or nothing is."""
    scripts = scripts_of([_there(name) for name in given])
    if args.folder:
        files = sorted(Path(args.folder).glob("*.sql"))
        scripts += [(file.name, [Statement(str(file), 1, Kind.FILE)]) for file in files]
    if args.command_line:
        scripts.append(("command", [Statement(args.command_line, 1, Kind.PROGRAM)]))
    if not scripts:
        raise Terminal(
            "There is nothing to rehearse: name scripts, a --folder with some, or a --command.",
            code="nothing-to-rehearse",
        )
    return scripts


def _writes(args: argparse.Namespace, plain: ConnectionInfo) -> list[str]:
    """What writers run meanwhile."""
    if not args.writers:
        return []
    with connect(plain, application="sluice rehearsal", autocommit=True) as connection:
        if args.writes:
            return [statement.text for statement in read(_there(args.writes))]
        found = accepted(connection, statements_of(connection))
    if not found:
        raise Terminal(
            "No writes could be made up for these tables: name a file of the application's with --writes.",
            code="no-writes",
        )
    return found


def _there(name: str) -> Path:
    file = Path(name)
    if not file.is_file():
        raise Terminal(f"There is no file {file}.", code="file-missing")
    return file


def _origin(args: argparse.Namespace, prefix: str | None) -> Origin:
    """Raises `SluiceError` for what is not there or cannot be rehearsed."""
    replication = config.load(config.meant(prefix)) if prefix else None
    files = [_there(name) for name in args.schema]
    master: ConnectionInfo | None = None
    if replication is not None:
        place = replication.master
        if not rehearsable(replication):
            raise Terminal(
                f"{replication.prefix}: only a PostgreSQL master that is captured by triggers is rehearsed.",
                code="not-rehearsable",
            )
        others = [name for name, slave in replication.slaves.items() if slave.vendor not in ("postgres", "mysql")]
        if others:
            raise Terminal(
                f"{replication.prefix}: only slaves on PostgreSQL and MariaDB are rehearsed, not {', '.join(others)}.",
                code="not-rehearsable",
            )
        if not args.master and not files:
            master = _connection(place.conn_id, place.vendor)
    if args.master:
        master = accounts.located(args.master)
    if master is None and not files:
        raise Terminal(
            "Say what to copy: --schema FILE, --master URL, or the PREFIX of a replication.", code="no-schema"
        )
    release = args.postgres or (definitions.release_of(master) if master else NEWEST)
    if release not in RELEASES:
        raise Terminal(
            f"PostgreSQL {release} is not known here: name another release with --postgres.",
            code="unknown-postgres-release",
        )
    return Origin(replication, master, files, release)


def _connection(conn_id: str, vendor: str) -> ConnectionInfo:
    if f"AIRFLOW_CONN_{conn_id.upper()}" in os.environ:
        return Connections(None)(conn_id, vendor)
    stack = Stack()
    if stack.status().supervisor is None:
        return Connections(None)(conn_id, vendor)  # which says what to do
    return OfStack(stack)(conn_id, vendor)


def _fill(args: argparse.Namespace, origin: Origin, plain: ConnectionInfo) -> tuple[list[str], bool]:
    """Gives the tables rows; returns what is to be known about them, and whether some are not made up."""
    with connect(plain, application="sluice rehearsal", autocommit=True) as copy:
        if args.rows and origin.master is not None:
            with connect(origin.master, application="sluice rehearsal", autocommit=True) as master:
                rows.sample(master, copy, args.rows)
            return [f"Rows: a sample of {args.rows} rows a table and what their foreign keys name."], True
        given = rows.any_there(copy)
        if not args.made_up:
            return [], given
        filled, refused = rows.make_up(copy, args.made_up)
        copy.execute("ANALYZE")
        made = f"{counted(len(filled), 'table')} got {args.made_up} made-up rows: a statement may fail on them alone."
        return [
            *([made] if filled else []),
            *(f"{table} got none: {reason}" for table, reason in refused.items()),
        ], given


def _replica(args: argparse.Namespace, servers: Servers, replication: Replication, name: str, database: str) -> Replica:
    slave = replication.slaves[name]
    infos = {
        slave.conn_id: servers.slave_database(slave.vendor, name),
        replication.master.conn_id: servers.postgres[CAPTURED].info(database),
    }
    return Replica(Pair.of(replication, name, infos), servers.redis.url, args.event_triggers)


def _of_every_table(servers: Servers, database: str, vendor: str) -> Replication:
    with connect(servers.postgres[CAPTURED].info(database), application="sluice rehearsal", autocommit=True) as master:
        schemas = sorted({table.schema for table in catalog.tables(master)} | {"public"})
    tables = "".join(f"  {json.dumps(quoted(schema) + '.*')}: {{}}\n" for schema in schemas)
    own = "schema: sluice" if vendor == "postgres" else f"vendor: {vendor}"
    text = f"""prefix: REHEARSAL_
master: {{conn_id: master, schema: sluice}}
slaves:
  slave: {{conn_id: slave, {own}}}
tables:
{tables}apply: {{checkpoint_interval: 0.1}}
"""
    return config.checked(servers.folder / "REHEARSAL.yaml", text)
