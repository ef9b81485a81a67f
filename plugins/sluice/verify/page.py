"""The report of a run as a page: one file, no script, nothing fetched, light and dark. See `templates/report.html`."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sluice.counted import counted
from sluice.verify.report_types import Report, TableReport

WORDS = {"missing": "missing on the slave", "extra": "only on the slave", "different": "with other values"}
PROPOSED = {
    "slave": "a repair changes the slave's",
    "master": "a repair of the replication in the other direction changes the master's",
    "neither": "the rule cannot tell: make the two rows equal by hand",
}
"""Whose row changes if both sides are written to, by the rule for conflicts."""


def page(reports: Iterable[Report]) -> str:
    """HTML of the reports (`report.as_dict`) of a run."""
    return _environment().get_template("report.html").render(reports=list(reports)).lstrip()


def clock(text: object) -> str:
    """An ISO 8601 time for people, in UTC, to the second."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return "–"
    time = time.astimezone(UTC) if time.tzinfo else time
    return time.strftime("%Y-%m-%d %H:%M:%S")


def templates_in(folder: Path) -> Environment:
    """An environment of HTML templates; an undefined name is an error."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _environment() -> Environment:
    environment = templates_in(Path(__file__).parent / "templates")
    environment.filters["clock"] = clock
    environment.globals |= {
        "counted": counted,
        "WORDS": WORDS,
        "PROPOSED": PROPOSED,
        "outcomes": _outcomes,
        "noteworthy": _noteworthy,
    }
    return environment


def _outcomes(tables: Iterable[TableReport]) -> list[tuple[str, int]]:
    """How many tables have which outcome, the commonest first."""
    return Counter(table["outcome"] for table in tables).most_common()


def _noteworthy(table: TableReport) -> bool:
    """Whether there is more to say than its line in the list does."""
    return bool(
        table["outcome"] != "identical"
        or table["sampled"]
        or table["examples"]
        or table["repaired"]
        or table["fell_back"]
        or table["place"]
        or table["transformed"]
        or table["accepted"]
        or table["waiting"]
    )
