"""The pages' templates: Jinja, which escapes every value."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment

from sluice import __version__
from sluice.airflow.pages.access import Visitor, may
from sluice.airflow.pages.charts import lag_curve, rate_curve
from sluice.airflow.pages.message import Level, clock, short_clock
from sluice.airflow.pages.overview import SORTS, lag_words
from sluice.airflow.pages.slave_row import UNKNOWN, moment
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


def action_link(root: str, name: str, prefix: str, slave: str = "", tables: str = "", **about: str) -> str:
    """The address of an action's page. `about`: values of other fields."""
    values = {"prefix": prefix, "slave": slave, "tables": tables, **about}
    return f"{root}/actions/{name}?" + urlencode({key: value for key, value in values.items() if value})


_INLINE = re.compile(
    r"\*\*(?P<bold>.+?)\*\*|(?P<fence>`+) ?(?P<code>.+?) ?(?P=fence)|\[(?P<label>[^\]]+)\]\((?P<to>[^)\s]+)\)"
)


class Part(NamedTuple):
    """A piece of a text in Markdown: `bold`, `code`, `link` with its address, or `text`."""

    kind: str
    text: str
    to: str = ""


class Block(NamedTuple):
    """A paragraph, or a list of several rows."""

    listed: bool
    rows: tuple[tuple[Part, ...], ...]


def evidence(text: str) -> list[Block]:
    """The body of a question, which has a little Markdown: paragraphs, lists, bold, code, links. All else is text."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        items = [re.sub(r"^(?:-|\d+\.) ", "", line) for line in lines]
        listed = bool(lines) and all(item != line for item, line in zip(items, lines, strict=True))
        rows = items if listed else [" ".join(lines)]
        blocks.append(Block(listed, tuple(tuple(_parts(row)) for row in rows)))
    return blocks


def _parts(text: str) -> Iterator[Part]:
    at = 0
    for found in _INLINE.finditer(text):
        yield Part("text", text[at : found.start()])
        at = found.end()
        if found["bold"]:
            yield Part("bold", found["bold"])
        elif found["code"]:
            yield Part("code", found["code"])
        elif re.match(r"https?://|/[^/]", found["to"]):
            yield Part("link", found["label"], found["to"])
        else:
            yield Part("text", found[0])
    yield Part("text", text[at:])


def environment() -> Environment:
    """Jinja's environment, with the filters and functions that the templates use."""
    made = templates_in(Path(__file__).parent / "templates")
    made.filters |= {"clock": clock, "duration": duration, "megabytes": _megabytes, "stamp": _stamp, "lag": lag_words}
    made.filters |= {"day_stamp": _day_stamp, "on_page": on_page, "evidence": evidence}
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
        "STATES": [*map(str, SlaveState), UNKNOWN],
        "Level": Level,
        "UTC": UTC,
    }
    return made
