"""The report of a run: what was compared, found and mended, as data that any program reads (`as_dict`).

Values of masked columns are never in it, in keys and examples alike.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from sluice.domain.names import TableName
from sluice.verify.findings import Example, Kind, Outcome, TableFinding
from sluice.verify.resync import TableResult

HIDDEN = "•••"
HIDDEN_REASON = "the reason speaks of a masked column; see the slave's REJECTS, or the task's log"
MOST_REASONS = 10
"""Reasons of changes that were set aside that are shown."""
SECRET = re.compile(r"pass(wor[dt]|wd|phrase)|secret|token|credential|api_?key|private_?key", re.IGNORECASE)
"""Columns whose values nobody needs to see, whatever the configuration says."""
LONGEST_VALUE = 200
"""Characters of a value that are shown."""
FORMAT = 1


def masked(table: TableName, column: str, patterns: Iterable[str]) -> bool:
    """Whether the values of a column are hidden. `patterns`: `schema.table.column`, with `*` for anything."""
    name = f"{table.schema}.{table.name}.{column}"
    return bool(SECRET.search(column)) or any(fnmatchcase(name, pattern) for pattern in patterns)


def as_dict(
    prefix: str, slave: str, action: str, started: str, results: Iterable[TableResult], mask: Iterable[str] = ()
) -> dict[str, Any]:
    """The report of one pair. `started`: ISO 8601, UTC."""
    patterns = tuple(mask)
    tables = [_table(result, patterns) for result in results]
    return {
        "format": FORMAT,
        "prefix": prefix,
        "slave": slave,
        "action": action,
        "started": started,
        "outcome": str(Outcome.of([Outcome(table["outcome"]) for table in tables])),
        "tables": tables,
    }


def _table(result: TableResult, patterns: tuple[str, ...]) -> dict[str, Any]:
    finding = result.finding
    return {
        "table": str(finding.table),
        "outcome": str(result.outcome),
        **_finding(finding, patterns),
        "repaired": result.repaired,
        "rejects_settled": finding.settled,
        "not_repaired_because": _reason(result.refused, finding, patterns),
        "after_repair": None if result.after is None else _finding(result.after, patterns),
    }


def _finding(finding: TableFinding, patterns: tuple[str, ...]) -> dict[str, Any]:
    return {
        "found": str(finding.outcome),
        "reason": _reason(finding.reason, finding, patterns),
        "position": finding.position,
        "position_time": finding.time,
        "rows_master": finding.rows_master,
        "rows_slave": finding.rows_slave,
        "blocks": finding.blocks,
        "blocks_different": finding.blocks_different,
        **{str(kind): rows.count for kind, rows in finding.found.items()},
        "causes": {
            **{str(kind): rows.cause for kind, rows in finding.found.items() if rows.cause},
            **({"rejects": _reasons(finding, patterns)} if finding.rejects else {}),
        },
        "set_aside": finding.rejected,
        "to_repair": finding.faults,
        "waiting": finding.waiting,
        "sampled": finding.sampled,
        "upper_bound": finding.upper_bound,
        "columns": finding.columns,
        "looked_at": finding.looked_at,
        "examples": [_example(example, finding, patterns) for example in finding.examples],
        "digest": finding.method,
        "fell_back": finding.fell_back,
        "seconds": round(finding.seconds, 3),
        "apply_seconds": round(finding.paused, 4),
        "travelled": finding.travelled,
    }


def _reasons(finding: TableFinding, patterns: tuple[str, ...]) -> dict[str, int]:
    """The commonest reasons first."""
    told: Counter[str] = Counter()
    for reason, count in finding.rejects.items():
        told[_reason(reason, finding, patterns)] += count
    return dict(told.most_common(MOST_REASONS))


def _reason(text: str, finding: TableFinding, patterns: tuple[str, ...]) -> str:
    """A reason quotes values of the columns that it names."""
    hidden = (name for name in finding.compared if masked(finding.table, name, patterns))
    return HIDDEN_REASON if any(name in text for name in hidden) else text


def _example(example: Example, finding: TableFinding, patterns: tuple[str, ...]) -> dict[str, Any]:
    ours, theirs = example.master, example.slave
    # Of a row that both have, what differs is what one wants to see.
    shown = None
    if example.kind is Kind.DIFFERENT and ours is not None and theirs is not None:
        shown = {name for name in ours if ours[name] != theirs[name]}
    return {
        "kind": str(example.kind),
        "copies": example.copies,
        "cause": example.cause,
        "key": _values(example.key, finding.table, patterns),
        "master": _values(ours, finding.table, patterns, shown),
        "slave": _values(theirs, finding.table, patterns, shown),
    }


def _values(
    row: Mapping[str, str | None] | None, table: TableName, patterns: tuple[str, ...], shown: set[str] | None = None
) -> dict[str, str | None] | None:
    if row is None:
        return None
    return {
        name: HIDDEN if value is not None and masked(table, name, patterns) else _short(value)
        for name, value in row.items()
        if shown is None or name in shown
    }


def _short(value: str | None) -> str | None:
    if value is None or len(value) <= LONGEST_VALUE:
        return value
    return f"{value[:LONGEST_VALUE]}… ({len(value):,} characters)"
