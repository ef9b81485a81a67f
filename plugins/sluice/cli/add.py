"""`add`: creates a replication, or a slave of one, from the addresses of databases."""

import argparse
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from sluice import config
from sluice.capture.resources import install
from sluice.cli import airflow, sides
from sluice.cli.arguments import tables_of
from sluice.cli.connections import ConnectionUnknown
from sluice.cli.console import Console
from sluice.cli.sides import Side
from sluice.cli.where import Where, uses
from sluice.configuration.model import SHORT_NAME, SHORT_NAME_SAYS, Replication
from sluice.configuration.rule import TablePattern
from sluice.counted import counted
from sluice.database.registry import no_database
from sluice.errors import SluiceError, Terminal
from sluice.model.issue import MASTER, Issue, Severity, errors
from sluice.model.names import Prefix, TableName
from sluice.model.vendors import BINLOG, CAPTURED, FIRST, LOGGED_MASTERS
from sluice.operate import replication_file
from sluice.paths import PROGRAM
from sluice.preflight.checks import NotReady

GIVE_PASSWORD = "then you give it a password, which is in no file: in psql the command asks for it"  # noqa: S105
RUNS = 4
"""How often to look for issues: a new database may lack more."""


def statements_needed(names: Iterable[str]) -> Terminal:
    """An administrator must run statements first."""
    return Terminal(
        f"Nothing was written. An administrator must run what is printed above on: {', '.join(names)}. Then start "
        "again, or give a log-in with --admin.",
        code="statements-needed",
    )


def run(args: argparse.Namespace, console: Console, where: Where) -> list[str] | None:
    """Adds it; returns the slaves to load, None after --print-sql. Raises `SluiceError`."""
    prefix, file = replication_file.named(args.name, where.folder)
    existing_one = replication_file.existing(prefix, file, where.folder)
    if existing_one is not None and args.start and not args.slave:
        return list(existing_one.slaves)
    master = _master(args.master, prefix, existing_one, where, console)
    slaves = _slaves(args.slave, prefix, existing_one, console)
    parties = [master, *slaves]
    sides.choose_administrators(args.admin, parties)
    for side in parties:
        if where.api is not None and (side is not master or existing_one is None):
            airflow.require_free(where.api, side.conn_id, side.info)
    _identify(parties, console, where, print_only=args.print_sql)
    patterns = None if existing_one is not None else args.tables or _tables(master, console)
    creators = _creators(args.creators, patterns or (), master, console)
    usual = master.info.vendor
    entries = {side.name: replication_file.entry(side.conn_id, side.info.vendor, usual) for side in slaves}
    location = _location(args, master, prefix, console) if existing_one is None else ""
    of_master = replication_file.of_master(master.conn_id, master.info.vendor, location)
    replication, text = replication_file.drafted(
        prefix, file, existing_one, of_master, entries, patterns or (), creators
    )
    _equip(replication, master, slaves, console, print_only=args.print_sql)
    if args.print_sql:
        return None
    # At once: passwords of new accounts are stored nowhere else.
    _connections(master if existing_one is None else None, slaves, console, where)
    in_file = _proven(replication, master, slaves, console)
    if args.event_triggers:
        _event_triggers(replication, master)
        console.say("The event triggers are created: slaves follow DDL on the master at once.")
    file.parent.mkdir(parents=True, exist_ok=True)
    replication_file.put(file, text)
    console.say(f"{prefix} is configured in {file}")
    if args.start and in_file:
        then = f"the load waits for it: correct the file, then run {PROGRAM} add {prefix.name.rstrip('_')} --start"
        raise NotReady(str(prefix), in_file, then)
    return [side.name for side in slaves]


def next_steps(prefix: Prefix, slaves: Sequence[str], where: Where) -> list[str]:
    """Lines about what a person does next."""
    airflow = where.api.url if where.api else "Airflow"
    log_in = f" ({where.log_in})" if where.log_in else ""
    lines = [
        f"Open {airflow}{log_in}: Dags, initial_update, Trigger; choose the replication {prefix} and the slave "
        f"{', '.join(slaves)}, which the form offers within a minute.",
        f"Or: {PROGRAM} add {prefix.name.rstrip('_')} --start. {PROGRAM} status shows how far it is.",
    ]
    if any(one.prefix == prefix and one.master.capture == BINLOG for one in config.survey(where.folder).replications):
        lines.insert(0, f"Trigger the DAG capture_redo for {prefix} first: it records the master's log, for months.")
    if where.api is None:
        lines.insert(
            0, f"The file must lie where SLUICE_REPLICATIONS of that Airflow points; here it is in {where.folder}."
        )
    return lines


def _slaves(given: Sequence[str], prefix: Prefix, existing_one: Replication | None, console: Console) -> list[Side]:
    texts = list(given)
    if not texts:
        name = console.ask("Name of the slave", "--slave NAME=URL", "" if existing_one else "dr1")
        texts = [f"{name}={console.ask(f'Address of {name} ({sides.URLS})', '--slave NAME=URL')}"]
    sides_added = []
    for text in texts:
        name, equals, url = text.partition("=")
        if not equals or "://" in name or not name:
            raise Terminal(
                f"--slave {text}: write NAME=URL, e.g. dr1=postgresql://host:5432/database ({sides.URLS}).",
                code="bad-slave-argument",
            )
        if not re.fullmatch(SHORT_NAME, name):
            raise Terminal(
                f"--slave {text}: {name!r} is no slave's name; {SHORT_NAME_SAYS}.", code="bad-slave-argument"
            )
        if existing_one is not None and name in existing_one.slaves:
            raise Terminal(
                f"{prefix} has a slave {name} already. Choose another name, or {PROGRAM} remove it first.",
                code="slave-exists",
            )
        sides_added.append(Side(name, f"{prefix.lower.rstrip('_')}_{name}".lower(), sides.parsed(url)))
    if twice := {side.name for side in sides_added if sum(other.name == side.name for other in sides_added) > 1}:
        raise Terminal(f"--slave names {', '.join(sorted(twice))} twice.", code="slave-named-twice")
    return sides_added


def _master(url: str | None, prefix: Prefix, existing_one: Replication | None, where: Where, console: Console) -> Side:
    conn_id = existing_one.master.conn_id if existing_one else f"{prefix.lower.rstrip('_')}_{MASTER}"
    if existing_one is not None and existing_one.master.stream and existing_one.master.capture != BINLOG:
        raise no_database(existing_one.master.stream.vendor)
    if url is None and existing_one is not None:
        try:
            return Side(MASTER, conn_id, where.connections(conn_id, existing_one.master.vendor))
        except ConnectionUnknown as unknown:
            raise Terminal(
                f"{prefix}'s connection {conn_id!r} cannot be read from here. Give the master's address: --master URL.",
                code="master-address-needed",
            ) from unknown
    address = url or console.ask(f"Address of the master ({sides.URLS})", "--master URL")
    info = sides.parsed(address)
    if info.vendor not in CAPTURED:
        raise Terminal(
            f"--master {address}: there are slaves alone. A master is {', '.join(CAPTURED)}.",
            code="vendor-is-slave-only",
        )
    return Side(MASTER, conn_id, info)


def _location(args: argparse.Namespace, master: Side, prefix: Prefix, console: Console) -> str:
    """The folder of the recorded log, for a master that has one. On the stack's own machine there is a usual one."""
    if master.info.vendor not in LOGGED_MASTERS:
        return ""
    usual = "" if args.airflow else replication_file.usual_location(prefix)
    if args.location or (usual and (console.yes or not console.interactive)):
        return str(args.location or usual)
    question = "Folder for the recorded log, which all machines with jobs have under this name"
    return console.ask(question, "--location FOLDER", usual)


def _identify(parties: Sequence[Side], console: Console, where: Where, *, print_only: bool) -> None:
    """Finds out whether accounts and databases exist, and the passwords of accounts and administrators."""
    passwords = {side.server: side.info.password for side in parties if side.info.password}
    for side in parties:
        if side.admin is None and console.interactive and sides.known(side.info) is None:
            login = console.ask(
                f"An administrator of {side.name} ({side.info.server}), to create {side.account} and grant what "
                "it lacks; - if it can log in already",
                "--admin",
                side.accounts.ADMINISTRATOR,
            )
            if login != "-":
                side.admin = sides.administrator(login, side.info)
        if side.admin is not None:
            side.admin = sides.administrators_password(console, side)
            sides.examine(side)
        if side.role_missing and side.server not in passwords and not print_only:
            passwords[side.server] = sides.new_password(console, side, kept=where.api is not None)
        elif side.server not in passwords and (kept := _kept(side, where)):
            passwords[side.server] = kept
        side.info = replace(side.info, password=passwords.get(side.server, ""))
        if side.role_missing or (print_only and side.admin is not None):
            continue
        if side.admin is not None and not uses(where, side.server):
            renewed = sides.renewed_password(console, side, kept=where.api is not None)
            side.info = replace(side.info, password=renewed or side.info.password)
        side.info = sides.accounts_password(console, side)
        passwords[side.server] = side.info.password


def _kept(side: Side, where: Where) -> str:
    """The account's password in an existing connection: of another replication, or from an earlier try."""
    infos = [use.info for use in uses(where, side.server)]
    with suppress(SluiceError):
        infos.append(where.connections(side.conn_id, side.info.vendor))
    return next((one.password for one in infos if one.password and (one.host, one.port, one.user) == side.server), "")


def _tables(master: Side, console: Console) -> list[str]:
    """Asks for patterns of tables, after listing the master's schemas."""
    with sides.session(master.admin or master.info) as session:
        contents = master.contents.inventory(session)
    console.say(f"Tables of {master.info.server}:")
    for one in contents:
        rows = f", about {counted(one.rows, 'row')}" if one.rows else ""
        owners = f", of {', '.join(one.owners)}" if one.owners else ""
        console.say(f"  {one.schema}: {counted(one.tables, 'table')}{rows}{owners}")
    every = [f"{TableName(one.schema, 't')!s}"[:-1] + "*" for one in contents] or ["public.*"]
    if console.yes or not console.interactive:
        console.say(f"All are replicated: {', '.join(every)}")
        return every
    answer = console.ask(
        "Tables to replicate, as schema.table or schema.*, with commas between", "--tables", ", ".join(every)
    )
    return tables_of(answer)


def _creators(given: str | None, patterns: Sequence[str], master: Side, console: Console) -> list[str]:
    """Asks which roles will make tables that a wildcard of a new replication means: only PostgreSQL's need privileges
    of their owners."""
    wildcards = any(TablePattern.parse(pattern).wildcard for pattern in patterns)
    if master.info.vendor != FIRST or not wildcards:
        return []
    if given is None and console.interactive and not console.yes:
        given = console.ask(
            "Roles that will make tables later, with commas between, beside the owners of the present ones; - if none",
            "--creators",
            "-",
        )
    return [name for each in (given or "").split(",") if (name := each.strip()) not in ("", "-")]


def _equip(
    replication: Replication, master: Side, slaves: Sequence[Side], console: Console, *, print_only: bool
) -> None:
    """Prints what is lacking and, with an administrator's log-in, runs it. Raises `statements-needed`."""
    for _ in range(RUNS):
        statements = sides.planned(replication, master, slaves)
        missing = [side for side in (master, *slaves) if statements[side.name]]
        for side in missing:
            shown = sides.explained(side, statements[side.name])
            role = side.accounts.create_role(side.account)
            if print_only and role in statements[side.name]:
                after = statements[side.name].index(role) + 1
                shown.insert(after, (side.accounts.password_step(side.account), GIVE_PASSWORD))
            console.script(f"{side.name}: {side.info.host}:{side.info.port}, database {side.info.database}", shown)
        if print_only:
            if not missing:
                console.say("Nothing is lacking on any side.")
            return
        able = [side for side in missing if side.admin is not None]
        if not able:
            return  # `_proven` reports what is lacking
        logins = ", ".join(f"{side.admin.user} on {side.name}" for side in able if side.admin)
        if not console.confirm(f"Run this as {logins}?"):
            raise statements_needed(side.name for side in missing)
        for side in able:
            sides.carried_out(side, statements[side.name])


def _proven(replication: Replication, master: Side, slaves: Sequence[Side], console: Console) -> list[Issue]:
    """Checks both sides as their accounts; returns the errors that are fixed in the file, which does not exist yet.
    Raises `NotReady`."""
    found = sides.as_accounts(replication, master, slaves)
    in_file = [issue for issue in errors(found) if issue.in_file]
    issues = [issue.softened() if issue.in_file else issue for issue in found]
    for issue in issues:
        if issue.severity is Severity.WARNING:
            console.say(f"warning: {issue}")
    if wrong := errors(issues):
        raise NotReady(str(replication.prefix), wrong, "it is not configured yet")
    for side in (master, *slaves):
        console.say(f"{side.name}: {side.info.server} answers, and its account has all privileges")
    return in_file


def _event_triggers(replication: Replication, master: Side) -> None:
    """Creates DbResources as the account, and the event triggers that call them as the administrator."""
    if master.admin is None:
        raise Terminal(
            "--event-triggers needs a superuser of the master: --admin master=LOGIN.", code="superuser-needed"
        )
    with sides.session(master.info) as session:
        install(session, replication.prefix, replication.master.schema, replication.master.cascade)
    with sides.session(master.admin) as session:
        if not master.contents.is_superuser(session):
            raise Terminal(
                f"{master.admin.user} is no superuser of the master, as event triggers require.",
                code="superuser-needed",
            )
        master.capture(session, replication.prefix, replication.master.schema).make_event_triggers()


def _connections(master: Side | None, slaves: Sequence[Side], console: Console, where: Where) -> None:
    parties = [*([master] if master else []), *slaves]
    if where.api is None:
        console.say("Create these connections on Airflow's machine, then enter the passwords under Admin, Connections:")
        for side in parties:
            console.say("  " + airflow.printed(side.conn_id, side.info))
        return
    for side in parties:
        airflow.write_connection(where.api, side.conn_id, side.info)
        console.say(f"Airflow has the connection {side.conn_id} ({side.info.server})")
