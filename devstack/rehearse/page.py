"""The report as a page: one file, nothing fetched, light and dark. See `report.html`."""

from functools import cache
from pathlib import Path

from jinja2 import Environment

from devstack.rehearse.report import Report
from sluice.counted import counted
from sluice.verify.page import templates_in


def page(report: Report) -> str:
    """HTML of the report."""
    return _environment().get_template("report.html").render(report=report).lstrip()


@cache
def _environment() -> Environment:
    made = templates_in(Path(__file__).parent)
    made.globals["counted"] = counted
    made.filters["milliseconds"] = lambda seconds: f"{seconds * 1000:,.0f} ms"
    return made
