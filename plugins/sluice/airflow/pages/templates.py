"""The pages' templates: Jinja, which escapes every value."""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment

from sluice import __version__
from sluice.airflow.pages.access import Visitor, may
from sluice.airflow.pages.charts import lag_curve, rate_curve
from sluice.airflow.pages.overview import SORTS, lag_words
from sluice.airflow.pages.slave_row import Level, clock, moment, short_clock
from sluice.counted import counted, duration
from sluice.model.slave_state import SlaveState
from sluice.operate.actions import ACTIONS, Action
from sluice.operate.remedies import on_page
from sluice.verify.page import templates_in

STATIC = Path(__file__).parent / "static"


def _ago(time: datetime | None, now: datetime) -> str:
    return f"{duration((now - time).total_seconds())} ago" if time else "–"


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S.%f")[:-3]


def _day_stamp(seconds: float) -> str:
    return clock(datetime.fromtimestamp(seconds, UTC))


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB" if size < 1e9 else f"{size / 1e9:,.1f} GB"


def offered(visitor: Visitor | None) -> dict[str, Action]:
    """The actions that the visitor may do."""
    return {name: action for name, action in ACTIONS.items() if visitor and may(visitor, action)}


def action_link(root: str, name: str, prefix: str, slave: str = "", tables: str = "") -> str:
    """The address of an action's page."""
    values = {"prefix": prefix, "slave": slave, "tables": tables}
    return f"{root}/actions/{name}?" + urlencode({key: value for key, value in values.items() if value})


def environment() -> Environment:
    """Jinja's environment, with the filters and functions that the templates use."""
    made = templates_in(Path(__file__).parent / "templates")
    made.filters |= {"clock": clock, "duration": duration, "megabytes": _megabytes, "stamp": _stamp, "lag": lag_words}
    made.filters |= {"day_stamp": _day_stamp, "on_page": on_page}
    made.globals |= {
        "version": __version__,
        "ago": _ago,
        "offered": offered,
        "action_link": action_link,
        "moment": moment,
        "short_clock": short_clock,
        "counted": counted,
        "lag_curve": lag_curve,
        "rate_curve": rate_curve,
        "SORTS": SORTS,
        "STATES": list(SlaveState),
        "Level": Level,
        "UTC": UTC,
    }
    return made
