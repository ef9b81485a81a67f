"""The pages' templates: Jinja, which escapes every value."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment

from sluice import __version__
from sluice.airflow.pages.access import Visitor, may
from sluice.airflow.pages.message import Level, clock, short_clock
from sluice.airflow.pages.overview import SORTS, lag_words
from sluice.airflow.pages.slave_row import UNKNOWN, moment
from sluice.counted import counted, duration
from sluice.model.sample import Sample, Samples
from sluice.model.slave_state import SlaveState
from sluice.operate.actions import ACTIONS, Action
from sluice.operate.remedies import on_page
from sluice.paths import PROGRAM
from sluice.verify.page import templates_in

# Computes the SVG paths of curves, which templates draw.

LEAST_TOP = 1.0
"""The value at the upper edge is never lower, so that small values look small."""


@dataclass(frozen=True)
class Curve:
    """A curve in a box of `width` × `height`, whose zero is at the bottom."""

    width: int
    height: int
    line: str
    """Path of the line; minutes without a value leave gaps."""
    area: str
    """Path of the area below it."""
    top: float
    """The value at the upper edge; 0 without values."""
    last: float | None


@lru_cache(maxsize=4_096)
def curve(
    samples: Samples,
    value: Callable[[Sample], float | None],
    last: int,
    *,
    minutes: int = 60,
    width: int = 120,
    height: int = 24,
) -> Curve:
    """The values of the `minutes` until `last`, in minutes since the epoch. A page shows the same for a minute."""
    points = [
        (one.minute - last + minutes, number)
        for one in samples
        if last - minutes <= one.minute <= last and (number := value(one)) is not None
    ]
    top = max([LEAST_TOP, *(number for _, number in points)]) if points else 0.0
    runs: list[list[tuple[float, float]]] = []
    previous = None
    for minute, number in points:
        at = (round(minute / minutes * width, 1), round(height - number / top * (height - 2) - 1, 1))
        if previous is not None and minute - previous == 1:
            runs[-1].append(at)
        else:
            runs.append([at])
        previous = minute
    paths = [_path(run) for run in runs]
    area = "".join(
        f"{path}L{run[-1][0]} {height}L{run[0][0]} {height}Z"
        for path, run in zip(paths, runs, strict=True)
        if len(run) > 1
    )
    return Curve(width, height, "".join(paths), area, top, points[-1][1] if points else None)


def _path(run: Sequence[tuple[float, float]]) -> str:
    first, *rest = run
    # A single point becomes a short stroke: a path without length would be invisible.
    rest = rest or [(first[0] + 0.5, first[1])]
    return f"M{first[0]} {first[1]}" + "".join(f"L{x} {y}" for x, y in rest)


def _lag(one: Sample) -> float | None:
    return one.lag


def _rate(one: Sample) -> float | None:
    return one.changes / 60


def _as_key(samples: Sequence[Sample]) -> Samples:
    return samples if isinstance(samples, Samples) else Samples(samples)


def lag_curve(samples: Sequence[Sample], now: float, **box: int) -> Curve:
    """In seconds. `box`: see `curve`."""
    return curve(_as_key(samples), _lag, int(now // 60), **box)


def rate_curve(samples: Sequence[Sample], now: float, **box: int) -> Curve:
    """In changes a second. `box`: see `curve`."""
    return curve(_as_key(samples), _rate, int(now // 60), **box)


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
        "program": PROGRAM,
        "lag_curve": lag_curve,
        "rate_curve": rate_curve,
        "SORTS": SORTS,
        "STATES": [*map(str, SlaveState), UNKNOWN],
        "Level": Level,
        "UTC": UTC,
    }
    return made
