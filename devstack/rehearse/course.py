"""Runs scripts on a plain and on a captured server, one after the other, and watches what each statement does."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from devstack.postgres import PostgresServer
from devstack.rehearse import report as reports
from devstack.rehearse.compare import difference
from devstack.rehearse.psql import Psql, run_whole
from devstack.rehearse.replica import Replica
from devstack.rehearse.report import Finding, Followed, Lock, Report, Side, Step, Table, Waits
from devstack.rehearse.script import Kind, Statement, read
from devstack.rehearse.watch import Watch
from devstack.rehearse.writers import Writers
from sluice.counted import counted
from sluice.model.table_state import TableStates, how_to_capture, how_to_load
from sluice.verify.findings import Outcome as Compared

Script = tuple[str, list[Statement]]
"""A name and its statements."""
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
    place: Place, scripts: Sequence[Script], after: Callable[[Watch], None]
) -> tuple[list[list[Side]], Waits]:
    """Runs each script in its own session; returns what happened to its statements, and how long writers waited.

    After a script that psql ended with an error the others are not run. `after` is called after each statement.
    """
    watch = Watch(place.server, place.database, ("sluice",))
    watch.start()
    done: list[list[Side]] = []
    try:
        with Writers(place.server, place.database, place.writes, place.writers) as writers:
            for _, statements in scripts:
                done.append(sides := _run_script(place, statements, watch, after))
                if sides and sides[-1].outcome.ended and sides[-1].outcome.failed:
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
    place: Place, statements: Sequence[Statement], watch: Watch, after: Callable[[Watch], None]
) -> list[Side]:
    info = place.server.info(place.database, place.user)
    sides: list[Side] = []
    psql: Psql | None = None
    with ExitStack() as stack:
        for statement in statements:
            began = watch.clock()
            if statement.kind in (Kind.FILE, Kind.PROGRAM):
                outcome = run_whole(info, statement)
            else:
                psql = psql or stack.enter_context(Psql(info, single=place.single, waiting=watch.idle))
                outcome = psql.run(statement)
            sides.append(Side(began, outcome))
            after(watch)
            if outcome.ended:
                break
        if psql is not None and place.single:
            last = sides[-1]
            last.outcome = replace(last.outcome, output=last.outcome.output + psql.close())
    return sides


class Course:
    """One rehearsal between servers that run. `own`: texts in names of Sluice's objects."""

    def __init__(self, plain: Place, captured: Place, replicas: Sequence[Replica], own: Sequence[str], wait: float):
        self.plain, self.captured, self.replicas = plain, captured, replicas
        self.own, self.wait = own, wait
        self._states: dict[str, TableStates] = {}
        self._stopped: set[str] = set()
        """Slaves whose apply has ended."""

    def run(self, title: str, scripts: Sequence[Script], say: Say) -> Report:
        """Runs everything, and returns the report."""
        report = Report(title, self.captured.server.release)
        say(f"{counted(len(scripts), 'script')} on the plain server")
        plain, report.waits["plain"] = run_scripts(self.plain, scripts, lambda watch: None)
        say("and on the captured one")
        self._states = {replica.name: replica.states() for replica in self.replicas}
        grown = self._items()
        seen: list[tuple[int, int, list[Followed]]] = []

        def after(watch: Watch) -> None:
            nonlocal grown
            followed: list[Followed] = []
            added = size = 0
            if not watch.in_transaction():
                for replica in self.replicas:
                    replica.find_definitions()
                now = self._items()
                added, size = now[0] - grown[0], now[1] - grown[1]
                grown = now
            if added:
                followed = [self._followed(replica) for replica in self.replicas if replica.name not in self._stopped]
            seen.append((added, size, followed))

        captured, report.waits["captured"] = run_scripts(self.captured, scripts, after)
        if not self.plain.writers:
            report.waits.clear()
        report.steps = self._steps(scripts, plain, captured, seen)
        for replica in self.replicas:
            if replica.name not in self._stopped:
                replica.find_definitions()
            mine = [one for step in report.steps for one in step.followed if one.slave == replica.name]
            if replica.name not in self._stopped and (not mine or mine[-1].seconds is None or self._items() != grown):
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
        for table in replica.captured():
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
        captured = set(replica.captured())
        lost = [table for table in states if table in captured]
        if lost:
            remedy = how_to_load(prefix, slave, lost)
            sizes = [f"{table} ({counted(replica.rows(table), 'row')} here)" for table in lost]
            report.findings.append(Finding("reload", slave, f"must be loaded again: {', '.join(sizes)}", remedy))
        for table in replica.uncaptured():
            text = "the replication does not have this table"
            report.findings.append(Finding("not replicated", str(table), text, how_to_capture(prefix)))
        if replica.failure is None and (message := replica.message()):
            report.findings.append(Finding("message", slave, message))


def _at(sides: list[list[Side]], number: int, place: int) -> Side | None:
    return sides[number][place] if number < len(sides) and place < len(sides[number]) else None


def scripts_of(files: Sequence[Path]) -> list[Script]:
    """The scripts with their names: the shortest ones that tell them apart."""
    names = [file.name for file in files]
    return [(file.name if names.count(file.name) == 1 else str(file), read(file)) for file in files]
