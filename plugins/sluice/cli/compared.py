"""The lines about a run of `resync`: what it compared and repaired, and where its report is. Pure."""

from collections.abc import Sequence

from sluice.counted import counted
from sluice.operate.remedies import at_terminal
from sluice.verify.report_types import Report, TableReport

LISTED = 20
"""Tables that differ, were repaired, or could not be compared, at most."""
OUTCOMES = {"identical": "identical", "different": "different", "could not compare": "not compared"}


def lines(reports: Sequence[Report], prefix: str, slave: str, address: str) -> list[str]:
    """`reports`: the run's, of which those of the pair are shown. `address`: of the report's page."""
    tables = [table for one in reports if (one["prefix"], one["slave"]) == (prefix, slave) for table in one["tables"]]
    findings = [line for table in tables if (line := _line(table, prefix, slave))]
    more = [f"    and {counted(len(findings) - LISTED, 'more table')}"] if len(findings) > LISTED else []
    return [f"{prefix} → {slave}: {_summary(tables)}", *findings[:LISTED], *more, f"    report: {address}"]


def _summary(tables: Sequence[TableReport]) -> str:
    if not tables:
        return "no table to compare"
    outcomes = [table["outcome"] for table in tables]
    counts = [f"{outcomes.count(one)} {words}" for one, words in OUTCOMES.items() if one in outcomes]
    rows = sum((table["after_repair"] or table)["rows_master"] for table in tables)
    sampled = ", of samples" if any(table["sampled"] for table in tables) else ""
    repaired = sum(table["repaired"] for table in tables)
    mended = f"; {counted(repaired, 'row')} repaired" if repaired else ""
    return f"{counted(len(tables), 'table')}, {counted(rows, 'row')} compared{sampled}: {', '.join(counts)}{mended}"


def _line(table: TableReport, prefix: str, slave: str) -> str:
    """What a person has to know of a table; empty if it was equal from the beginning."""
    last = table["after_repair"] or table
    parts = []
    if table["repaired"]:
        parts.append(f"{counted(table['repaired'], 'row')} repaired")
    if table["outcome"] == "could not compare":
        parts.append(f"not compared: {last['reason'] or table['reason']}")
    elif table["outcome"] != "identical":
        kinds = [f"{last[kind]:,} {kind}" for kind in ("missing", "extra", "different") if last[kind]]
        parts.append(f"{counted(last['to_repair'], 'row')} to repair ({', '.join(kinds)})" if kinds else "different")
    if table["not_repaired_because"]:
        parts.append(table["not_repaired_because"])
    return at_terminal(f"    {table['table']}: {'; '.join(parts)}", prefix, slave) if parts else ""
