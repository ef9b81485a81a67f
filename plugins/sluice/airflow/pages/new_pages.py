"""A new replication: choose connections of Airflow and test them, choose tables, write the file or copy it.

Nothing on the databases is changed. The file is drafted and checked as by `sluice add`.
"""

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request, Response

from sluice import config
from sluice.airflow import connections
from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.action_pages import form_of, from_own_page
from sluice.airflow.pages.databases import in_thread
from sluice.airflow.pages.gathering import Watch
from sluice.airflow.pages.in_process_api import InProcessApi
from sluice.airflow.pages.rendering import Renderer
from sluice.configuration.model import Replication
from sluice.configuration.resolve import own_tables
from sluice.configuration.rule import TablePattern
from sluice.database.registry import master_of, reach
from sluice.database.session import Session
from sluice.errors import SluiceError, Terminal
from sluice.model.airflow_connection import GENERIC
from sluice.model.issue import MASTER, Issue, errors
from sluice.model.names import TableName
from sluice.model.vendors import CAPTURED, LOGGED_MASTERS, VENDORS
from sluice.operate import replication_file
from sluice.operate.api import Api

log = logging.getLogger("sluice.airflow")

APPLICATION = "sluice add"
CONNECT_SECONDS, STATEMENT_SECONDS = 5, 30
LISTED = 100
"""Connections per page of Airflow's list, at most."""
ROWS = 3
"""Slaves for which an empty form has room."""


class NotChosen(Terminal):
    """Something that the replication needs was not chosen."""


@dataclass(frozen=True)
class Offered:
    """A connection of Airflow, read as that of a database."""

    conn_id: str
    vendor: str
    address: str

    @property
    def value(self) -> str:
        return f"{self.vendor}:{self.conn_id}"


def parsed(value: str) -> tuple[str, str]:
    """Vendor and connection of an `Offered.value`."""
    vendor, _, conn_id = value.partition(":")
    return vendor, conn_id


@dataclass(frozen=True)
class Chosen:
    """The values of the form."""

    name: str = ""
    master: str = ""
    """As `Offered.value`."""
    slaves: tuple[tuple[str, str], ...] = ()
    """Name and connection of each."""
    tables: tuple[str, ...] = ()
    """Patterns."""
    location: str = ""
    """The folder for the recorded log of a master that has one; empty: the usual one."""

    @classmethod
    def of(cls, form: Mapping[str, Sequence[str]]) -> "Chosen":
        pairs = zip(form.get("slave", ()), form.get("conn", ()), strict=False)
        named = tuple((name.strip(), conn) for name, conn in pairs if name.strip() or conn)
        name, master, location = (form.get(field, [""])[0].strip() for field in ("name", "master", "location"))
        return cls(name, master, named, tuple(form.get("tables", ())), location)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The slaves of the form, and empty rows."""
        return [*self.slaves, *[("", "")] * max(1, ROWS - len(self.slaves))]

    def checked(self) -> "Chosen":
        """Raises `NotChosen`."""
        for value, what in ((self.name, "a name"), (self.master, "the connection of the master")):
            if not value:
                raise NotChosen(f"Choose {what}.")
        if not self.slaves:
            raise NotChosen("Choose a slave: its name and its connection.")
        for name, conn in self.slaves:
            if not name or not conn:
                raise NotChosen(f"The slave {name or conn} needs both a name and a connection.")
        if len({name for name, _ in self.slaves}) < len(self.slaves):
            raise NotChosen("Two slaves have the same name.")
        return self


@dataclass(frozen=True)
class OfferedTable:
    """A table of the master."""

    table: TableName
    rows: int | None
    bytes: int
    issues: tuple[Issue, ...]
    """What `check` says of it."""

    @property
    def pattern(self) -> str:
        return TablePattern.exactly(self.table)


@dataclass(frozen=True)
class Side:
    """A database that was tested."""

    name: str
    server: str
    trouble: str = ""
    """Why it cannot be used; empty: it answers."""


@dataclass(frozen=True)
class Tested:
    """What both ends say."""

    sides: tuple[Side, ...]
    tables: tuple[OfferedTable, ...] = ()
    issues: tuple[Issue, ...] = ()
    """All that `check` finds for all tables."""

    @property
    def schemas(self) -> dict[str, list[OfferedTable]]:
        """The tables by the pattern that is all of their schema, also those of later."""
        found: dict[str, list[OfferedTable]] = {}
        for one in self.tables:
            found.setdefault(every(one.table.schema), []).append(one)
        return found


def every(schema: str) -> str:
    """The pattern of all tables of a schema."""
    return f"{str(TableName(schema, 't'))[:-1]}*"


def mentions(issue: Issue, table: TableName) -> bool:
    """Whether an issue names the table, or a column of it."""
    names = {str(table), f"{table.schema}.{table.name}"}
    text = f"{issue.what} {issue.why} {issue.statement or ''}"
    return any(re.search(rf'(?<![\w".]){re.escape(name)}(?![\w"])', text) for name in names)


def offered(api: Api) -> list[Offered]:
    """Airflow's connections that may lead to a database, by their ids. Those of type generic may lead to any."""
    found: list[Offered] = []
    for offset in count(0, LISTED):
        page = api.get("connections", limit=LISTED, offset=offset, order_by="connection_id")
        for one in page["connections"]:
            kind, port = str(one["conn_type"]), f":{one['port']}" if one.get("port") else ""
            address = f"{one.get('host') or '?'}{port}/{one.get('schema') or ''}"
            vendors = [kind] if kind in VENDORS else list(VENDORS) if kind == GENERIC else []
            found += [Offered(str(one["connection_id"]), vendor, address) for vendor in vendors]
        if len(page["connections"]) < LISTED:
            break
    return found


def draft(chosen: Chosen, patterns: Sequence[str]) -> tuple[Path, Replication, str]:
    """The file of the replication, and what it would hold. Raises `ConfigError`, `file-in-use`, `InvalidName`."""
    folder = config.folders()[-1]
    prefix, file = replication_file.named(chosen.name, folder)
    if replication_file.existing(prefix, file, folder) is not None:
        raise Terminal(f"{prefix} is configured in {file} already. Choose another name.", code="file-in-use")
    usual, conn_id = parsed(chosen.master)
    slaves = {}
    for name, value in chosen.slaves:
        vendor, of_slave = parsed(value)
        slaves[name] = replication_file.entry(of_slave, vendor, usual)
    location = chosen.location or replication_file.usual_location(prefix)
    of_master = replication_file.of_master(conn_id, usual, location)
    replication, text = replication_file.drafted(prefix, file, None, of_master, slaves, patterns)
    return file, replication, text


def examined(chosen: Chosen) -> Tested:
    """Tests both ends, and checks the replication of all tables. Changes nothing. Raises `NotChosen`, `ConfigError`."""
    with ExitStack() as stack:
        sides, sessions = _reached(chosen.checked(), stack)
        if any(side.trouble for side in sides):
            return Tested(tuple(sides))
        master = sessions[MASTER]
        rows = master_of(parsed(chosen.master)[0]).rows
        present = rows.tables(master)
        tables = sorted(set(present) - own_tables(present))
        patterns = list(dict.fromkeys(every(table.schema) for table in tables))
        if not patterns:
            return Tested((Side(MASTER, sides[0].server, "its account sees no table"), *sides[1:]))
        issues = _issues(draft(chosen, patterns)[1], sessions)
        sizes = rows.estimates(master, tables)
    found = [
        OfferedTable(
            one,
            sizes[one].rows if one in sizes else None,
            sizes[one].bytes if one in sizes else 0,
            tuple(issue for issue in issues if mentions(issue, one)),
        )
        for one in tables
    ]
    return Tested(tuple(sides), tuple(found), tuple(issues))


def proven(chosen: Chosen) -> tuple[Path, str]:
    """The file and its text, for the chosen tables, after `check`. Raises `NotChosen`, `NotReady`, `ConfigError`."""
    from sluice.preflight.checks import NotReady  # as in `_issues`

    if not chosen.checked().tables:
        raise NotChosen("Choose tables.")
    by_text = {text: TablePattern.parse(text) for text in chosen.tables}
    whole = {one.schema for one in by_text.values() if one.wildcard}
    patterns = [text for text, one in by_text.items() if one.wildcard or one.schema not in whole]
    file, replication, text = draft(chosen, patterns)
    with ExitStack() as stack:
        sides, sessions = _reached(chosen, stack)
        if away := [f"{side.name}: {side.trouble}" for side in sides if side.trouble]:
            raise Terminal(" ".join(away), code="databases-unreachable")
        # Remedies in the file are possible once it exists; every DAG checks again.
        issues = [issue.softened() if issue.in_file else issue for issue in _issues(replication, sessions)]
    if wrong := errors(issues):
        raise NotReady(str(replication.prefix), wrong)
    return file, text


def _reached(chosen: Chosen, stack: ExitStack) -> tuple[list[Side], dict[str, Session]]:
    """Both ends, and the sessions of those that answer."""
    sides, sessions = list[Side](), dict[str, Session]()
    for name, value in ((MASTER, chosen.master), *chosen.slaves):
        vendor, conn_id = parsed(value)
        server = conn_id
        try:
            if name == MASTER and vendor not in CAPTURED:
                raise Terminal(
                    f"A master is {' or '.join(CAPTURED)}; {vendor} databases are slaves only.",
                    code="vendor-is-slave-only",
                )
            info = connections.info(conn_id, vendor, "the new replication")
            server = info.server
            reached = reach(info.given_up_after(CONNECT_SECONDS), APPLICATION, STATEMENT_SECONDS)
            sessions[name] = stack.enter_context(reached)
            sides.append(Side(name, server))
        except SluiceError as failure:
            sides.append(Side(name, server, str(failure)))
    return sides, sessions


def _issues(replication: Replication, sessions: Mapping[str, Session]) -> list[Issue]:
    # Every component of Airflow imports the pages, and this brings numpy and Arrow along.
    from sluice.preflight.checks import of_master, of_slave

    issues = of_master(sessions[MASTER], replication)
    for name, slave in replication.slaves.items():
        issues += of_slave(sessions[name], replication, slave, master=sessions[MASTER])
    return issues


def add(app: FastAPI, guard: Callable[..., Visitor], show: Renderer, watch: Watch) -> None:
    Who = Annotated[Visitor, Depends(guard)]  # noqa: N806

    async def page(request: Request, visitor: Visitor, chosen: Chosen, problem: str = "", **more: object) -> Response:
        api = InProcessApi.of(request)
        found, trouble = await in_thread(lambda: _offers(api))
        values: dict[str, object] = {"tested": None, "copied": "", "file": None, **more}
        return show(
            request, "new.html", visitor, 400 if problem else 200, here="new", chosen=chosen, offered=found,
            masters=[one for one in found if one.vendor in CAPTURED], problem=problem or trouble, **values,
        )  # fmt: skip

    @app.get("/new/")
    async def new(request: Request, visitor: Who) -> Response:
        _administers(visitor)
        return await page(request, visitor, Chosen())

    @app.post("/new/")
    async def chosen(request: Request, visitor: Who) -> Response:
        _administers(visitor)
        form = await form_of(request)
        wish = Chosen.of(form)
        if not from_own_page(request, visitor, form.get("key", [""])[0]):
            return await page(request, visitor, wish, "This page was too old, or came from elsewhere. Press once more.")
        try:
            if form.get("do") != ["write"]:
                return await page(request, visitor, wish, tested=await in_thread(lambda: examined(wish)))
            file, text = await in_thread(lambda: proven(wish))
            if not os.access(file.parent, os.W_OK):
                return await page(request, visitor, wish, file=file, copied=text)
            await in_thread(lambda: replication_file.put(file, text))
        except SluiceError as failure:
            return await page(request, visitor, wish, str(failure))
        except OSError as failure:
            return await page(request, visitor, wish, f"{file} cannot be written: {failure.strerror}.", copied=text)
        log.info("%s has written %s", visitor.name, file)
        watch.forget()
        prefix = str(replication_file.named(wish.name, file.parent)[0])
        return show(
            request, "new_done.html", visitor, here="new", prefix=prefix, slaves=[name for name, _ in wish.slaves],
            file=file, text=text, recorded=parsed(wish.master)[0] in LOGGED_MASTERS,
        )  # fmt: skip


def _administers(visitor: Visitor) -> None:
    """Raises 403."""
    if not visitor.administers:
        raise HTTPException(403, "A new replication needs the right to change Airflow's connections.")


def _offers(api: Api) -> tuple[Iterable[Offered], str]:
    try:
        return offered(api), ""
    except SluiceError as failure:
        return [], str(failure)
