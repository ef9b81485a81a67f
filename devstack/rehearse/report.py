"""What a rehearsal found: statement by statement, table by table, and as findings with reason and remedy. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from devstack.rehearse.psql import Outcome
from sluice.counted import counted

SLOWER_FACTOR, SLOWER_SECONDS = 2.0, 0.02
"""A statement is slower with capture above so many times its time without, plus so many seconds."""


@dataclass(frozen=True)
class Lock:
    """A lock of a table that makes others wait."""

    table: str
    mode: str
    began: float
    """Seconds since the side's first statement."""
    seconds: float


@dataclass
class Side:
    """A statement on one of the two servers."""

    began: float
    """Seconds since the side's first statement."""
    outcome: Outcome
    locks: list[Lock] = field(default_factory=list)
    """Locks that were taken during the statement."""


@dataclass
class Followed:
    """What a slave did after a statement."""

    slave: str
    seconds: float | None
    """Until it had everything that was committed then; None if it did not get it."""
    tables: dict[str, str] = field(default_factory=dict)
    """Table → its new state and the reason, for tables whose state changed."""
    stopped: str = ""
    """Why its apply ended; later statements then have no entry of this slave."""


@dataclass
class Step:
    """A statement on both servers."""

    script: str
    line: int
    text: str
    plain: Side | None = None
    """None if psql had ended before."""
    captured: Side | None = None
    difference: list[str] = field(default_factory=list)
    items: int = 0
    """Rows that it added to ITEMS."""
    bytes: int = 0
    """Bytes by which ITEMS grew."""
    followed: list[Followed] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"{self.script}:{self.line}"

    @property
    def slower(self) -> bool:
        """Whether it took longer with capture than is to be expected."""
        if self.plain is None or self.captured is None:
            return False
        return self.captured.outcome.seconds > SLOWER_FACTOR * self.plain.outcome.seconds + SLOWER_SECONDS


@dataclass
class Table:
    """A table at the end, on one slave."""

    slave: str
    name: str
    rows: int
    """On the master."""
    outcome: str
    """As a verification words it, or the table's state if it is not ready."""
    detail: str = ""


@dataclass(frozen=True)
class Finding:
    """Something to know before the script runs on the master."""

    kind: str
    place: str
    text: str
    remedy: str = ""


@dataclass
class Waits:
    """What writers met on one server meanwhile."""

    statements: int
    longest: float
    """Seconds of the slowest statement."""
    waited: float
    """Seconds that all of them waited for locks of others, by samples."""
    errors: dict[str, int] = field(default_factory=dict)
    """Error → how often."""


@dataclass
class Report:
    """The whole rehearsal."""

    title: str
    release: int
    steps: list[Step] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    waits: dict[str, Waits] = field(default_factory=dict)
    """`plain`, `captured` → what writers met."""
    notes: list[str] = field(default_factory=list)
    """What is to be known about the copy."""
    equal_after: dict[str, float | None] = field(default_factory=dict)
    """Slave → seconds from the end of the scripts until it had everything."""

    def as_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return asdict(self)

    @property
    def items(self) -> int:
        return sum(step.items for step in self.steps)

    @property
    def bytes(self) -> int:
        return sum(step.bytes for step in self.steps)

    def length(self, side: str) -> float:
        """Seconds from the first statement to the end of the last one, with the waits for slaves between them."""
        sides: list[Side | None] = [getattr(step, side) for step in self.steps]
        return max((each.began + each.outcome.seconds for each in sides if each), default=0.0) or 1.0

    def locks(self, side: str) -> list[tuple[str, list[Lock]]]:
        """The locks on `plain` or `captured`, by table."""
        found: dict[str, list[Lock]] = {}
        for step in self.steps:
            each: Side | None = getattr(step, side)
            for lock in each.locks if each else ():
                found.setdefault(lock.table, []).append(lock)
        return sorted(found.items())

    def seconds(self, side: str) -> float:
        """Seconds of all statements on `plain` or `captured`."""
        sides: Iterable[Side | None] = (getattr(step, side) for step in self.steps)
        return sum(each.outcome.seconds for each in sides if each)


def of_steps(steps: Sequence[Step]) -> list[Finding]:
    """The findings that statements make, in their order."""
    found: list[Finding] = []
    for step in steps:
        shown = step.text
        if step.difference:
            found.append(
                Finding("differs", step.place, f"{shown} ends otherwise with capture: {'; '.join(step.difference[:6])}")
            )
        elif step.captured and step.captured.outcome.error:
            found.append(
                Finding("fails", step.place, f"{shown} fails, without capture, too: {step.captured.outcome.error}")
            )
        for followed in step.followed:
            for table, state in followed.tables.items():
                found.append(Finding("left out", step.place, f"{shown}: on {followed.slave}, {table} becomes {state}"))
            if followed.stopped:
                text = f"{shown}: the apply of {followed.slave} ends: {followed.stopped}"
                found.append(Finding("stopped", step.place, text))
            elif followed.seconds is None:
                found.append(Finding("behind", step.place, f"{shown}: {followed.slave} did not follow in time"))
    return found


def of_tables(tables: Iterable[Table], others: Iterable[Finding]) -> list[Finding]:
    """The findings that the tables make at the end, without those of `others`, which say the same."""
    texts = " ".join(finding.text for finding in others)
    return [
        Finding("differs on the slave", f"{table.slave}: {table.name}", f"{table.outcome}: {table.detail}".strip(": "))
        for table in tables
        if table.outcome not in ("identical", "empty") and f"on {table.slave}, {table.name} becomes" not in texts
    ]


def lines(report: Report) -> list[str]:
    """The report for a terminal."""
    width = max([len(step.place) for step in report.steps] + [9])
    found = [f"{report.title}, PostgreSQL {report.release}", ""]
    found.append(f"{'statement':<{width}}  {'plain':>8}  {'captured':>8}  {'ITEMS':>7}  {'slave':>7}  ")
    for step in report.steps:
        slowest = [followed.seconds for followed in step.followed]
        slave = "" if not slowest else "–" if None in slowest else f"{max(filter(None, slowest), default=0.0):.2f} s"
        lost = [f"{name}: {state.partition(':')[0]}" for each in step.followed for name, state in each.tables.items()]
        marks = " ".join(
            mark
            for mark, applies in (
                ("≠", bool(step.difference)),
                ("fails", bool(step.captured and step.captured.outcome.error)),
                ("slower", step.slower),
                (", ".join(lost), bool(lost)),
            )
            if applies
        )
        found.append(
            f"{step.place:<{width}}  {_seconds(step.plain):>8}  {_seconds(step.captured):>8}  {step.items or '':>7}  "
            f"{slave:>7}  {step.text[:70]}{'  ← ' + marks if marks else ''}"
        )
        for side, name in ((step.plain, "plain"), (step.captured, "captured")):
            for lock in side.locks if side else ():
                if lock.seconds >= SLOWER_SECONDS:
                    found.append(f"{'':<{width}}  {name}: {lock.mode} on {lock.table} for {lock.seconds:.2f} s")
    found += ["", f"ITEMS grew by {counted(report.items, 'row')}, {report.bytes / 1e6:.1f} MB"]
    for name, waits in report.waits.items():
        errors = "".join(f"; {counted(number, 'time')} {text}" for text, number in waits.errors.items())
        found.append(
            f"writers, {name}: {counted(waits.statements, 'statement')}, the slowest {waits.longest:.2f} s, "
            f"{waits.waited:.2f} s of waits for locks{errors}"
        )
    for slave, seconds in report.equal_after.items():
        after = "has not followed" if seconds is None else f"had everything {seconds:.2f} s after the last statement"
        compared = [table for table in report.tables if table.slave == slave]
        equal = sum(table.outcome in ("identical", "empty") for table in compared)
        found.append(f"{slave} {after}; {equal} of {counted(len(compared), 'table')} equal")
    found += report.notes
    found += ["", *(_finding(finding) for finding in report.findings)]
    found.append(counted(len(report.findings), "finding") if report.findings else "nothing found")
    return found


def _finding(finding: Finding) -> str:
    remedy = f"\n    {finding.remedy}" if finding.remedy else ""
    return f"* {finding.place}: {finding.text}{remedy}"


def _seconds(side: Side | None) -> str:
    return "not run" if side is None else f"{side.outcome.seconds * 1000:.0f} ms"
