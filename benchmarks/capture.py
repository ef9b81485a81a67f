"""`capture`: what our triggers cost the master's own work.

Three tables alike, each in its own database: without triggers, with ours, and with ours in the form of row
triggers (which a table gets that inherits; here from an empty parent). A fourth has the C triggers of Slony-I, where
`slonik` is on the PATH and the master's server has its functions. The same statements on each in turn, commits durable.
After each run ITEMS, or Slony's log, holds as many changes as were made.

The figures `ddl` are the milliseconds that event triggers add to a DDL statement, in databases of few and of many
captured tables: of CPU of the session's process, since a statement takes too short for a clock on a busy machine.
"""

import argparse
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import psycopg

from benchmarks import machine
from benchmarks.clients import TENS, Clients, start_rows
from benchmarks.cpu import CpuWatch, spent
from benchmarks.ours import capture, configure
from benchmarks.progress import alternate
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import DATABASES, Servers, connect
from benchmarks.side import scalar
from sluice.capture import wildcards
from sluice.errors import Terminal
from workload import mixes
from workload.mixes import TABLE, Mix
from workload.pgbench import environment

INHERITS = f"""
CREATE SCHEMA apart;
CREATE TABLE apart.parent (LIKE {TABLE});
ALTER TABLE {TABLE} INHERIT apart.parent"""
CLIENTS = 2
BULK_GOAL, TENS_GOAL = 0.25, 1 / 1.15
"""7.5 s where the bare table takes 1.9 s; 15 % more."""


class Subject:
    """One table that is written to."""

    def __init__(self, servers: Servers, name: str, database: str) -> None:
        self.servers, self.name = servers, name
        self.info = servers.database("master", database)
        self.connection = connect(self.info)
        self.connection.execute(mixes.DDL)
        self.queue: str | None = None
        """The table to which changes are written, if they are captured."""

    def capture(self, statements: str = "") -> "Subject":
        """With our triggers, after `statements`."""
        self.connection.execute(statements.encode())
        capture(self.connection, configure(self.servers.folder / "replications"))
        self.queue = "sluice.bench_items"
        return self

    def log(self, slonik: str) -> "Subject":
        """A table with Slony's triggers, as `slonik` creates them for a set without subscribers. Raises
        `bench-side-failed`."""
        info = self.info
        script = f"""
            cluster name = bench;
            node 1 admin conninfo = 'host={info.host} port={info.port} dbname={info.database} user={info.user}';
            init cluster (id = 1, comment = 'bench');
            create set (id = 1, origin = 1, comment = 'bench');
            set add table (set id = 1, origin = 1, id = 1, fully qualified name = '{TABLE}', comment = 'bench');
        """
        given = dict(environment(info, self.servers.folder))
        done = subprocess.run([slonik], input=script, env=given, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Terminal(
                f"slonik ended with status {done.returncode}: {done.stdout}{done.stderr}", code="bench-side-failed"
            )
        self.queue = "_bench.sl_log_1"
        return self

    def empty(self) -> None:
        """As it was new; triggers are not told."""
        with self.connection.transaction():
            self.connection.execute("SET LOCAL session_replication_role = replica")
            self.connection.execute(f"TRUNCATE {TABLE}" + (f", {self.queue}" if self.queue else ""))

    def fill(self, write: Callable[[psycopg.Connection], object]) -> None:
        """Rows that are there before, unseen by triggers."""
        with self.connection.transaction():
            self.connection.execute("SET LOCAL session_replication_role = replica")
            write(self.connection)


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when changes are missing in ITEMS."""
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(args, places=("master",)))
        subjects = {
            "bare": Subject(servers, "bare", DATABASES[1]),
            "ours": Subject(servers, "ours", DATABASES[0]).capture(),
            "row triggers": Subject(servers, "row triggers", DATABASES[2]).capture(INHERITS),
        }
        slonik, lacking = slony(subjects["bare"].connection)
        if slonik:
            subjects["Slony-I"] = Subject(servers, "Slony-I", DATABASES[3]).log(slonik)
        works: list[Bulk | Tens] = [Bulk(args.scale), Whole(args.scale), Tens(args.scale, servers)]
        figures: list[Figure] = []
        for work in works:
            if work.name in (args.figure or ("bulk", "tens")):
                figures += measure(subjects, work, args, lacking)
        for tables in (200, 2_000):
            if "ddl" in (args.figure or ("ddl",)):
                figures += definitions(servers, max(5, int(tables * args.scale)), args)
        setting = {**machine.describe(), **servers.describe()}
    return Report("capture", figures, setting)


class Bulk:
    """Statements of 10,000 rows, each its own transaction."""

    name, goal = "bulk", BULK_GOAL

    def __init__(self, scale: float) -> None:
        changes = max(200, int(1_000_000 * scale) // 100 * 100)
        self.mix = Mix(self.name, changes, self.statement(changes))
        self.title = f"{changes:,} row changes in statements of {self.mix.transaction:,}"

    def statement(self, changes: int) -> int:
        """Rows that each changes."""
        return min(10_000, max(11, changes // 100))

    def run(self, subject: Subject) -> Run:
        subject.empty()
        subject.fill(self.mix.prepare)
        return timed(subject, lambda: self.mix.write(subject.connection, "written"))


class Whole(Bulk):
    """One statement inserts all, one updates, one deletes."""

    name = "whole"

    def statement(self, changes: int) -> int:
        return changes


class Tens:
    """Transactions of ten single-row statements, from clients that wait for each answer."""

    name, goal = "tens", TENS_GOAL

    def __init__(self, scale: float, servers: Servers) -> None:
        self.count = max(10, int(10_000 * scale))
        self.title = f"{self.count:,} transactions of ten statements, {CLIENTS} clients"
        self.folder = servers.folder

    def run(self, subject: Subject) -> Run:
        subject.empty()
        rows = f"INSERT INTO {TABLE} SELECT {mixes.VALUES} FROM ({start_rows(CLIENTS)}) s"
        subject.fill(lambda connection: connection.execute(rows.encode()))
        clients = Clients(subject.info, self.folder, TENS.format(table=TABLE), CLIENTS)
        return timed(subject, lambda: 10 * clients.transactions(self.count))


DDL = {
    "CREATE TABLE": "CREATE TABLE made_{n} (id int PRIMARY KEY, a text, b text NOT NULL, n numeric, at timestamptz)",
    "ADD COLUMN": "ALTER TABLE made_{n} ADD z text",
    "CREATE INDEX": "CREATE INDEX ON made_{n} (z)",
    "DROP TABLE": "DROP TABLE made_{n}",
}
"""Statements of an application, each run on its own tables."""
DDL_TIMES, DDL_GOAL = 20, 10.0
"""How often each is run, and the milliseconds that capture may add."""


def clock(connection: psycopg.Connection) -> float:
    """The CPU seconds of the session's process; of a server elsewhere, the time."""
    used = spent(connection.info.backend_pid)
    return used.own if used else time.perf_counter()


def definitions(servers: Servers, tables: int, args: argparse.Namespace) -> list[Figure]:
    """What each statement of `DDL` takes longer with event triggers, where `tables` are captured.

    Raises `bench-side-failed`.
    """
    made = {}
    for side, database in (("bare", DATABASES[1]), ("ours", DATABASES[0])):
        connection = connect(servers.database("master", database))
        if side == "ours":
            replication = configure(servers.folder / "replications")
            capture(connection, replication)
            wildcards.note(connection, replication)
        for number in range(tables):
            connection.execute(DDL["CREATE TABLE"].replace("made_{n}", f"stays_{number}").encode())
        if side == "ours" and (captured := scalar(connection, "SELECT count(*) FROM sluice.bench_captures")) != tables:
            raise Terminal(f"{captured} of {tables} tables are captured", code="bench-side-failed")
        made[side] = connection

    def run(side: str) -> Run:
        taken = {}
        begun = time.perf_counter()
        for kind, text in DDL.items():
            first = clock(made[side])
            for number in range(DDL_TIMES):
                made[side].execute(text.format(n=number).encode())
            taken[kind] = 1000 * (clock(made[side]) - first) / DDL_TIMES
        seconds = time.perf_counter() - begun
        return Run(1000 * seconds / DDL_TIMES, seconds, {}, taken)

    sides = {side: lambda side=side: run(side) for side in made}
    runs = alternate(f"capture ddl, {tables} tables", sides, args.rounds, args.warm_up)
    for connection in made.values():
        connection.close()
    return [
        Figure(
            f"{kind} where {tables:,} tables are captured, more than without",
            "ms",
            [
                Run(ours.detail[kind] - bare.detail[kind], ours.seconds)
                for ours, bare in zip(runs["ours"], runs["bare"], strict=True)
            ],
            less_is_better=True, at_most=DDL_GOAL,
        )
        for kind in DDL
    ]  # fmt: skip


def slony(connection: psycopg.Connection) -> tuple[str, str]:
    """The path of a `slonik` whose functions this server has, or why there is none."""
    slonik = shutil.which("slonik")
    if slonik is None:
        return "", "Slony-I is not on the PATH"
    version = subprocess.run([slonik, "-v"], capture_output=True, text=True, check=True).stdout.split()[-1]
    try:
        connection.execute(f"LOAD '$libdir/slony1_funcs.{version}'".encode())
    except psycopg.Error as error:
        return "", f"Slony-I {version} is not made for this server: {error.diag.message_primary}"
    return slonik, ""


def measure(
    subjects: Mapping[str, Subject], work: Bulk | Tens, args: argparse.Namespace, note: str = ""
) -> list[Figure]:
    """One work on every table: a figure of each that has triggers."""
    wanted = {
        name: subject
        for name, subject in subjects.items()
        if args.side == "both" or (name == "bare") == (args.side == "reference")
    }
    sides = {name: lambda subject=subject: work.run(subject) for name, subject in wanted.items()}
    runs = alternate(f"capture {work.name}", sides, args.rounds, args.warm_up)
    bare = runs.pop("bare", [])
    if not runs:
        return [Figure(work.title, "s", [], bare, "no triggers", less_is_better=True)]
    return [
        Figure(
            work.title if name == "ours" else f"the same, {name}",
            "s", found, bare, "no triggers", less_is_better=True, goal=work.goal if name == "ours" else None,
            note=note if name == "ours" else "",
        )
        for name, found in runs.items()
    ]  # fmt: skip


def timed(subject: Subject, write: Callable[[], int]) -> Run:
    """The time of `write`, which makes changes and returns their number. Raises `bench-side-failed` if ITEMS has
    another number."""
    subject.connection.execute("ANALYZE")
    subject.servers.quiet_down()
    with CpuWatch(subject.servers.roots) as watch:
        begun = time.perf_counter()
        changes = write()
        seconds = time.perf_counter() - begun
    if subject.queue and (queued := scalar(subject.connection, f"SELECT count(*) FROM {subject.queue}")) != changes:
        raise Terminal(
            f"{subject.name}: {changes} rows were changed, {queued} changes are queued", code="bench-side-failed"
        )
    return Run(seconds, seconds, watch.seconds, {"changes": changes})
