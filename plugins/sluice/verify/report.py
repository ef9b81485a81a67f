"""The report of a run: what was compared, found and repaired, as data that any program reads (`as_dict`).

Values of masked columns are never in it, in keys and examples alike.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sluice.model.mask import Mask
from sluice.model.names import TableName
from sluice.verify.findings import Example, Kind, Outcome, TableFinding
from sluice.verify.report_types import Causes, ExampleReport, FindingReport, Report, TableReport, Values
from sluice.verify.resync import TableResult

HIDDEN_REASON = "the reason is not shown, since the table has a masked column; the row is in the slave's REJECTS"
MOST_REASONS = 10
"""Reasons of changes that were set aside that are shown."""
LONGEST_VALUE = 200
"""Characters of a value that are shown."""
FORMAT = 1


def as_dict(
    prefix: str, slave: str, action: str, started: str, results: Iterable[TableResult], mask: Iterable[str] = ()
) -> Report:
    """The report of one pair. `started`: ISO 8601, UTC."""
    hiding = Mask(tuple(mask))
    tables = [_table(result, hiding) for result in results]
    return {
        "format": FORMAT,
        "prefix": prefix,
        "slave": slave,
        "action": action,
        "started": started,
        "outcome": str(Outcome.of([Outcome(table["outcome"]) for table in tables])),
        "tables": tables,
    }


def joined(reports: Sequence[Report]) -> Report:
    """One report of a pair's tables from several, at least one."""
    tables = [table for report in reports for table in report["tables"]]
    outcome = Outcome.of([Outcome(table["outcome"]) for table in tables])
    return {**reports[0], "outcome": str(outcome), "tables": tables}


def _table(result: TableResult, mask: Mask) -> TableReport:
    finding = result.finding
    return {
        "table": str(finding.table),
        "outcome": str(result.outcome),
        **_finding(finding, mask),
        "repaired": result.repaired,
        "rejects_settled": finding.settled,
        "not_repaired_because": _reason(result.refused, finding, mask),
        "after_repair": None if result.after is None else _finding(result.after, mask),
    }


def _finding(finding: TableFinding, mask: Mask) -> FindingReport:
    counts = {kind: rows.count for kind, rows in finding.found.items()}
    return {
        "found": str(finding.outcome),
        "reason": _reason(finding.reason, finding, mask),
        "position": finding.position,
        "position_time": finding.time,
        "rows_master": finding.rows_master,
        "rows_slave": finding.rows_slave,
        "blocks": finding.blocks,
        "blocks_different": finding.blocks_different,
        "missing": counts[Kind.MISSING],
        "extra": counts[Kind.EXTRA],
        "different": counts[Kind.DIFFERENT],
        "causes": _causes(finding, mask),
        "accepted": finding.accepted,
        "set_aside": finding.rejected,
        "to_repair": finding.faults,
        "waiting": finding.waiting,
        "sampled": finding.sampled,
        "upper_bound": finding.upper_bound,
        "columns": finding.columns,
        "looked_at": finding.looked_at,
        "examples": [_example(example, finding, mask) for example in finding.examples],
        "digest": finding.method,
        "fell_back": finding.fell_back,
        "place": finding.place,
        "transformed": finding.transformed,
        "rule": finding.rule,
        "proposed": {str(changes): count for changes, count in finding.proposed.items()},
        "seconds": round(finding.seconds, 3),
        "apply_seconds": round(finding.paused, 4),
        "traveled": finding.traveled,
    }


def _causes(finding: TableFinding, mask: Mask) -> Causes:
    causes: Causes = {}
    if missing := finding.found[Kind.MISSING].cause:
        causes["missing"] = missing
    if extra := finding.found[Kind.EXTRA].cause:
        causes["extra"] = extra
    if different := finding.found[Kind.DIFFERENT].cause:
        causes["different"] = different
    if finding.rejects:
        causes["rejects"] = _reasons(finding, mask)
    return causes


def _reasons(finding: TableFinding, mask: Mask) -> dict[str, int]:
    """The commonest reasons first."""
    counts: Counter[str] = Counter()
    for reason, count in finding.rejects.items():
        counts[_reason(reason, finding, mask)] += count
    return dict(counts.most_common(MOST_REASONS))


def _reason(text: str, finding: TableFinding, mask: Mask) -> str:
    """A reason may quote any value of a row, with the name of its column or without."""
    return HIDDEN_REASON if text and mask.hides_any(finding.table, finding.compared) else text


def _example(example: Example, finding: TableFinding, mask: Mask) -> ExampleReport:
    master_row, slave_row = example.master, example.slave
    # Of a row that both have, only the columns that differ are shown.
    shown = None
    if example.kind is Kind.DIFFERENT and master_row is not None and slave_row is not None:
        shown = {name for name in master_row if master_row[name] != slave_row[name]}
    return {
        "kind": str(example.kind),
        "copies": example.copies,
        "cause": example.cause,
        "changes": "" if example.changes is None else str(example.changes),
        "key": _values(example.key, finding.table, mask) or {},
        "master": _values(master_row, finding.table, mask, shown),
        "slave": _values(slave_row, finding.table, mask, shown),
    }


def _values(
    row: Mapping[str, str | None] | None, table: TableName, mask: Mask, shown: set[str] | None = None
) -> Values | None:
    if row is None:
        return None
    return {name: _short(value) for name, value in mask.row(table, row).items() if shown is None or name in shown}


def _short(value: str | None) -> str | None:
    if value is None or len(value) <= LONGEST_VALUE:
        return value
    return f"{value[:LONGEST_VALUE]}… ({len(value):,} characters)"
