"""What a rehearsal found: as findings with remedies, on a terminal. No I/O. Its form: `sluice.verify.rehearsal`."""

from collections.abc import Iterable, Sequence

from sluice.counted import counted
from sluice.model.mask import quoted_text
from sluice.verify.rehearsal import SLOWER_SECONDS, Finding, Outcome, Report, Side, Step, Table


def of_steps(steps: Sequence[Step]) -> list[Finding]:
    """The findings that statements make, in their order."""
    found: list[Finding] = []
    for step in steps:
        shown = step.text
        if step.difference:
            found.append(
                Finding(
                    "differs",
                    step.place,
                    f"{shown} ends otherwise with capture: {quoted_text('; '.join(step.difference[:6]))}",
                )
            )
        elif step.captured and step.captured.outcome.error:
            found.append(
                Finding(
                    "fails",
                    step.place,
                    f"{shown} fails, without capture, too{_failure(step.captured.outcome)}",
                )
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


def _failure(outcome: Outcome) -> str:
    """The error, with its SQLSTATE for people who may not see what it quotes."""
    state = f" (SQLSTATE {outcome.sqlstate})" if outcome.sqlstate else ""
    return f"{state}: {quoted_text(outcome.error)}"


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
