"""Runs scripts on a plain and on a captured server, one after the other, and watches what each statement does."""

import contextlib
import difflib
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from devstack.postgres import PostgresServer
from devstack.rehearse import report as reports
from devstack.rehearse.psql import APPLICATION, Psql, run_whole
from devstack.rehearse.replica import Replica
from devstack.rehearse.script import Kind, Statement, read
from devstack.rehearse.writers import APPLICATION as WRITER
from devstack.rehearse.writers import Writers
from sluice.counted import counted, duration
from sluice.database.rows import Estimate
from sluice.model.names import TableName
from sluice.model.table_state import TableStates, how_to_capture, how_to_load
from sluice.verify.findings import Outcome as Compared
from sluice.verify.rehearsal import Finding, Followed, Lock, Outcome, Report, Side, Step, Table, Waits

LOADED_A_SECOND = 100_000
"""Rows, of which a small machine loads some more: a report says it beside what it expects of the master's tables."""

# Watches a server while a script runs on it: which locks of tables its sessions hold, and since when one is idle.

SAMPLE_SECONDS = 0.02
LOOK_SECONDS = 0.5
"""So often it looks for statements that wait for a lock."""
BLOCKING = ("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")
"""The locks that make writers of a table wait; the last one its readers, too."""

_HELD = """
SELECT n.nspname || '.' || c.relname, l.mode
  FROM pg_catalog.pg_locks l
  JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
  JOIN pg_catalog.pg_class c ON c.oid = l.relation
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE l.locktype = 'relation' AND l.granted AND l.mode = ANY (%s)
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
   AND a.application_name NOT LIKE 'sluice%%' AND a.pid <> pg_catalog.pg_backend_pid()
   AND c.relkind IN ('r', 'p', 'm') AND n.nspname <> ALL (%s)
"""
_OPEN = """
SELECT pg_catalog.count(*) FILTER (WHERE xact_start IS NOT NULL),
       coalesce(pg_catalog.min(EXTRACT(epoch FROM pg_catalog.clock_timestamp() - state_change))
                FILTER (WHERE state LIKE 'idle%%'), 0)
  FROM pg_catalog.pg_stat_activity WHERE application_name = %s AND datname = current_database()
"""
_STUCK = """
SELECT w.pid, coalesce((SELECT pg_catalog.string_agg(DISTINCT coalesce(a.application_name || ': ' || a.query,
                               'prepared transaction ' || p.gid), '; ')
                          FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid)) AS b (pid)
                          LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = b.pid
                          LEFT JOIN pg_catalog.pg_prepared_xacts p ON b.pid = 0
                           AND p.database = current_database()), 'a session that has ended')
  FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity w ON w.pid = l.pid
 WHERE NOT l.granted AND l.waitstart < pg_catalog.clock_timestamp() - %s * interval '1 second'
   AND w.datname = current_database() AND w.application_name NOT LIKE 'sluice%%' AND w.application_name <> %s
"""


DEEP = "stack depth limit exceeded"


@dataclass
class Held:
    """A lock that makes others wait, held on one table."""

    table: str
    mode: str
    began: float
    """Seconds since the script's first statement."""
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Watch(threading.Thread):
    """Samples from `start` to `stop`. `ignored`: schemas that are not of the application. `wait`: seconds after which a
    statement of the script that waits for a lock is canceled, since whoever has it may wait for the script."""

    def __init__(self, server: PostgresServer, database: str, ignored: tuple[str, ...], wait: float):
        super().__init__(name=f"watch {server.name}", daemon=True)
        self._server, self._database = server, database
        self._ignored = [*ignored, "pg_catalog", "information_schema", "pg_toast"]
        self._ended = threading.Event()
        self.begun = time.monotonic()
        self.held: list[Held] = []
        self._canceled = ""
        self._wait = wait
        self._current: dict[tuple[str, str], Held] = {}
        self._asking = self._connected()
        self._lock = threading.Lock()

    def _connected(self) -> "psycopg.Connection[tuple[object, ...]]":
        connection = self._server.connect(self._database)
        connection.execute("SET application_name = 'sluice watch'")
        return connection

    def run(self) -> None:
        looked = 0.0
        while not self._ended.is_set():
            try:
                with self._connected() as connection:
                    while not self._ended.wait(SAMPLE_SECONDS):
                        self._sample(connection)
                        if self.clock() > looked + LOOK_SECONDS:
                            looked = self.clock()
                            self._cancel(connection)
            except psycopg.Error:  # a script may end every session
                self._ended.wait(0.2)

    def _sample(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        rows = connection.execute(_HELD, [list(BLOCKING), self._ignored]).fetchall()
        now = self.clock()
        seen = {(str(table), str(mode)) for table, mode in rows}
        with self._lock:
            for key in seen:
                if key not in self._current:
                    self._current[key] = held = Held(*key, began=now, ended=now)
                    self.held.append(held)
                self._current[key].ended = now
            for key in self._current.keys() - seen:
                del self._current[key]

    def _cancel(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        with self._lock:  # `why_canceled` waits, and so the next statement, which is not meant
            for waiting, holder in connection.execute(_STUCK, [self._wait, WRITER]).fetchall():
                connection.execute("SELECT pg_catalog.pg_cancel_backend(%s)", [waiting])
                self._canceled = f"canceled after waiting {self._wait:g} s for a lock held by {holder}"

    def why_canceled(self) -> str:
        """Why the statement that has just ended was canceled, unless it got its lock at that moment; else empty."""
        with self._lock:
            why, self._canceled = self._canceled, ""
        return why

    def clock(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun

    def held_between(self, began: float, ended: float) -> list[Held]:
        """The locks that were taken between two times of `clock`, the strongest of each table."""
        with self._lock:
            taken = [held for held in self.held if began <= held.began <= ended]
        strongest: dict[str, Held] = {}
        for held in sorted(taken, key=lambda held: BLOCKING.index(held.mode)):
            strongest[held.table] = held
        return sorted(strongest.values(), key=lambda held: held.began)

    def in_transaction(self) -> bool:
        """Whether a session of the script has a transaction open."""
        return bool(self._ask()[0])

    def idle(self) -> float:
        """For how many seconds every session of the script has been idle; 0 if one works."""
        return self._ask()[1]

    def _ask(self) -> tuple[int, float]:
        try:
            row = self._asking.execute(_OPEN, [APPLICATION]).fetchone()
        except psycopg.Error:
            self._asking.close()
            with contextlib.suppress(psycopg.Error):
                self._asking = self._connected()
            return 0, 0.0
        assert row is not None
        return int(str(row[0])), float(str(row[1]))

    def stop(self) -> None:
        self._ended.set()
        if self.is_alive():
            self.join()
        self._asking.close()


# Compares what psql printed on a plain and on a captured server. No I/O.

_TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,6}([+-]\d\d(:?\d\d)*)?")
_UUIDS = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_MESSAGE = re.compile(r"(psql:\S+ )?(ERROR|WARNING|NOTICE|FATAL|PANIC): ")


def normal(text: str, own: Sequence[str]) -> list[str]:
    """The lines without what depends on the number, names and length of other lines.

    Lines that name one of `own`, texts in names of Sluice's objects, are left out unless they are an error's or a
    warning's. Times with fractions of a second, UUIDs and processes stand for themselves: each server has its own.
    """
    found = []
    for line in text.splitlines():
        line = re.sub(r"[-+]{2,}", "--", re.sub(r"\s+", " ", line).strip())
        line = _UUIDS.sub("UUID", _TIMES.sub("TIME", re.sub(r"\(\d+ rows?\)", "(rows)", line)))
        line = re.sub(r"\b(process|PID) \d+", r"\1 N", line)
        named = any(name in line for name in own) and not _MESSAGE.match(line)
        if line and not named and line not in ("Triggers:", "Disabled user triggers:"):
            found.append(line)
    return found


def different_lines(plain: Sequence[str], captured: Sequence[str]) -> list[str]:
    """The lines that only one of both has: `- ` of the plain server, `+ ` of the captured one."""
    deep = [next((n for n, line in enumerate(one) if DEEP in line), None) for one in (plain, captured)]
    if None not in deep:  # where in its recursion it ended is chance
        plain, captured = plain[: deep[0]], captured[: deep[1]]
    if sorted(plain) == sorted(captured):
        return []  # without ORDER BY, rows come in any order
    _, _, *changed = difflib.unified_diff(plain, captured, n=0, lineterm="")
    return [f"{line[0]} {line[1:]}" for line in changed if line[0] in "-+"]


def difference(plain: Outcome, captured: Outcome, own: Sequence[str], *, results: bool = True) -> list[str]:
    """How a statement ends otherwise with capture than without; nothing if it ends alike.

    `results`: whether results count, too, not only messages; writers beside it make other results on each server.
    """
    both = [normal(outcome.output, own) for outcome in (plain, captured)]
    if not results:
        both = [[line for line in lines if _MESSAGE.match(line)] for lines in both]
    lines = different_lines(*both)
    ways = [(one.sqlstate, one.ended, not one.error) for one in (plain, captured)]
    if not lines and ways[0] != ways[1]:
        ends = (one.error or f"SQLSTATE {one.sqlstate}" for one in (plain, captured))
        lines = [f"{sign} {end}" for sign, end in zip("-+", ends, strict=True)]
    return lines


Script = tuple[str, list[Statement]]
"""A name and its statements."""
ALONE = 20
"""Up to this many similar statements in a row are followed one by one; further ones are followed together."""
Say = Callable[[str], None]


@dataclass
class Place:
    """A database in which scripts run."""

    server: PostgresServer
    database: str
    user: str
    single: bool = False
    """Whether each script is one transaction."""
    writers: int = 0
    """How many sessions write meanwhile."""
    writes: Sequence[str] = ()
    """What they run."""


def run_scripts(
    place: Place, scripts: Sequence[Script], wait: float, after: Callable[[Watch, bool], None]
) -> tuple[list[list[Side]], Waits]:
    """Runs each script in its own session; returns what happened to its statements, and how long writers waited.

    After a script that psql ended with an error the others are not run. `after` is called after each statement, with
    whether slaves need not follow yet. `wait`: the most seconds that one waits for a lock.
    """
    watch = Watch(place.server, place.database, ("sluice",), wait)
    watch.start()
    done: list[list[Side]] = []
    try:
        with Writers(place.server, place.database, place.writes, place.writers) as writers:
            for _, statements in scripts:
                done.append(sides := _run_script(place, statements, watch, after))
                if sides and sides[-1].outcome.ended and sides[-1].outcome.error:
                    break
    finally:
        watch.stop()
    for sides in done:
        for number, side in enumerate(sides):
            until = sides[number + 1].began if number + 1 < len(sides) else side.began + side.outcome.seconds
            side.locks = [
                Lock(held.table, held.mode, held.began, held.seconds) for held in watch.held_between(side.began, until)
            ]
    return done, writers.waits


def _run_script(
    place: Place, statements: Sequence[Statement], watch: Watch, after: Callable[[Watch, bool], None]
) -> list[Side]:
    info = place.server.info(place.database, place.user)
    sides: list[Side] = []
    psql: Psql | None = None
    with ExitStack() as stack:
        repeated = 0
        for number, statement in enumerate(statements):
            began = watch.clock()
            others = (statements[number - 1 : number], statements[number + 1 : number + 2])
            before, behind = (any(statement.alike(one) for one in other) for other in others)
            repeated = repeated + 1 if before else 0
            if statement.kind in (Kind.FILE, Kind.PROGRAM):
                outcome = run_whole(info, statement)
            else:
                psql = psql or stack.enter_context(Psql(info, single=place.single, waiting=watch.idle))
                outcome = psql.run(statement)
            if (why := watch.why_canceled()) and outcome.error:
                outcome = replace(outcome, error=f"{outcome.error} – {why}")
            sides.append(Side(began, outcome))
            after(watch, behind and repeated >= ALONE and not outcome.ended)
            if outcome.ended:
                break
        if psql is not None and place.single:
            last = sides[-1]
            last.outcome = replace(last.outcome, output=last.outcome.output + psql.close())
    return sides


class Course:
    """One rehearsal between servers that run. `own`: texts in names of Sluice's objects."""

    def __init__(
        self,
        plain: Place,
        captured: Place,
        replicas: Sequence[Replica],
        own: Sequence[str],
        wait: float,
        sizes: Mapping[TableName, Estimate] | None = None,
    ):
        """`sizes`: of the tables on the master, if there is one."""
        self._sizes = sizes or {}
        self.plain, self.captured, self.replicas = plain, captured, replicas
        self.own, self.wait = own, wait
        self._states: dict[str, TableStates] = {}
        self._stopped: set[str] = set()
        """Slaves whose apply has ended."""

    def run(self, title: str, scripts: Sequence[Script], say: Say) -> Report:
        """Runs everything, and returns the report."""
        report = Report(title, self.captured.server.release)
        say(f"{counted(len(scripts), 'script')} on the plain server")
        plain, report.waits["plain"] = run_scripts(self.plain, scripts, self.wait, lambda *_: None)
        say("and on the captured one")
        self._states = {replica.name: replica.states() for replica in self.replicas}
        grown = self._items()
        seen: list[tuple[int, int, list[Followed]]] = []

        def after(watch: Watch, more: bool) -> None:
            nonlocal grown
            followed: list[Followed] = []
            added = size = 0
            if not more and not watch.in_transaction():
                for replica in self.replicas:
                    replica.find_definitions()
                now = self._items()
                added, size = now[0] - grown[0], now[1] - grown[1]
                grown = now
            following = [replica for replica in self.replicas if replica.name not in self._stopped]
            if added or any(replica.failure for replica in following):
                followed = [self._followed(replica) for replica in following]
            seen.append((added, size, followed))

        captured, report.waits["captured"] = run_scripts(self.captured, scripts, self.wait, after)
        if not self.plain.writers:
            report.waits.clear()
        report.steps = self._steps(scripts, plain, captured, seen)
        for replica in self.replicas:
            replica.find_definitions()
            mine = [one for step in report.steps for one in step.followed if one.slave == replica.name]
            late = not mine or mine[-1].seconds is None or replica.failure or self._items() != grown
            if replica.name not in self._stopped and late:
                mine.append(self._followed(replica))
                report.steps[-1].followed.append(mine[-1])
            report.equal_after[replica.name] = mine[-1].seconds
        report.findings = reports.of_steps(report.steps)
        say("comparing")
        for replica in self.replicas:
            self._compare(replica, report)
        return report

    def _items(self) -> tuple[int, int]:
        return self.replicas[0].waiting() if self.replicas else (0, 0)

    def _followed(self, replica: Replica) -> Followed:
        seconds = replica.settle(self.wait)
        if replica.failure is not None:
            self._stopped.add(replica.name)
        before, now = self._states[replica.name], replica.states()
        self._states[replica.name] = now
        changed = {str(table): now.explain(table) for table in now if now.explain(table) != before.explain(table)}
        return Followed(replica.name, seconds, changed, str(replica.failure or ""))

    def _steps(
        self,
        scripts: Sequence[Script],
        plain: list[list[Side]],
        captured: list[list[Side]],
        seen: list[tuple[int, int, list[Followed]]],
    ) -> list[Step]:
        steps = []
        after = iter(seen)
        for number, (name, statements) in enumerate(scripts):
            for place, statement in enumerate(statements):
                one, other = (_at(sides, number, place) for sides in (plain, captured))
                step = Step(name, statement.line, statement.short, one, other)
                if other is not None:
                    step.items, step.bytes, step.followed = next(after)
                if one is not None and other is not None:
                    step.difference = difference(
                        one.outcome, other.outcome, self.own,
                        results=not self.plain.writers and statement.kind is not Kind.PROGRAM,
                    )  # fmt: skip
                elif one is not None or other is not None:
                    step.difference = [f"{'+' if one is None else '-'} runs only there: psql had ended before"]
                steps.append(step)
        return steps

    def _compare(self, replica: Replica, report: Report) -> None:
        states = replica.states()
        prefix, slave = replica.pair.prefix, replica.name
        for table in (captured := replica.captured()):
            finding = replica.compare(table)
            outcome = "identical" if finding.outcome is Compared.IDENTICAL else str(finding.outcome)
            detail = finding.reason
            if finding.outcome is Compared.DIFFERENT:
                kinds = (
                    f"{counted(found.count, 'row')} {kind}" for kind, found in finding.found.items() if found.count
                )
                detail = ", ".join(kinds)
            if not states.ready(table):
                outcome, detail = str(states.state(table)), states.reasons.get(table, "")
            report.tables.append(Table(slave, str(table), finding.rows_master, outcome, detail))
        report.findings += reports.of_tables((one for one in report.tables if one.slave == slave), report.findings)
        lost = [table for table in states if table in captured]
        if lost:
            remedy = how_to_load(prefix, slave, lost)
            sizes = [f"{table} ({self._size(table, replica.rows(table))})" for table in lost]
            report.findings.append(Finding("reload", slave, f"must be loaded again: {', '.join(sizes)}", remedy))
        for table in replica.uncaptured():
            text = "the replication does not have this table"
            report.findings.append(Finding("not replicated", str(table), text, how_to_capture(prefix)))
        if replica.failure is None and replica.lost_event_triggers():
            text = "the script drops Sluice's event triggers: definitions then follow by comparison, new tables wait"
            remedy = "Make them again afterwards, as docs/capture.md says, and start the DAG reconcile_tables."
            report.findings.append(Finding("event triggers", slave, text, remedy))
        if replica.failure is None and (message := replica.message()):
            report.findings.append(Finding("message", slave, message))

    def _size(self, table: TableName, rows: int) -> str:
        """How many rows a table has here and on the master, and how long it takes to load those."""
        here, real = f"{counted(rows, 'row')} here", self._sizes.get(table)
        if real is None:
            return here
        megabytes = f"{real.bytes / 1e6:,.0f} MB on the master"
        if real.rows is None:
            return f"{here}, {megabytes}"
        seconds = duration(real.rows / LOADED_A_SECOND)
        return f"{here}, about {real.rows:,} in {megabytes}: {seconds} at {LOADED_A_SECOND:,} rows a second"


def _at(sides: list[list[Side]], number: int, place: int) -> Side | None:
    return sides[number][place] if number < len(sides) and place < len(sides[number]) else None


def scripts_of(files: Sequence[Path]) -> list[Script]:
    """The scripts with their names: the shortest ones that tell them apart."""
    names = [file.name for file in files]
    return [(file.name if names.count(file.name) == 1 else str(file), read(file)) for file in files]
