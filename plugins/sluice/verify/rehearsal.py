"""The report of a rehearsal: its form, read strictly, without values of rows, and as a page. No I/O.

`./sluice rehearse` makes it and writes it as JSON; the monitor gets it from there, also as a person's upload. What has
another form is refused with its place, and a page is made of nothing but what was read here.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from datetime import UTC, datetime
from functools import cache
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from jinja2 import Environment

from sluice.configuration.model import Replication
from sluice.counted import counted
from sluice.errors import Terminal
from sluice.model.mask import HIDDEN, without_values
from sluice.model.vendors import VENDORS
from sluice.paths import PROGRAM
from sluice.verify.page import clock, templates_in

SLOWER_FACTOR, SLOWER_SECONDS = 2.0, 0.02
"""A statement is slower with capture above so many times its time without, plus so many seconds."""
FORMAT = 1
"""Of the JSON; another one was written by another release."""
SHOWN = 4_000
"""So many characters of a text are kept, and of what a statement printed are shown."""
LARGEST = 10**15
"""No number of a report is larger: neither bytes nor seconds are."""

Read = TypeVar("Read")
Instant = Annotated[str, "time"]
"""In ISO 8601, with a time zone."""
Growth = Annotated[int, "signed"]
"""Less than 0 if something became smaller."""


@dataclass(frozen=True)
class Outcome:
    """How a statement ended."""

    output: str = ""
    """What psql printed: results, command tags, notices, errors."""
    sqlstate: str = ""
    """The SQLSTATE of an error; 00000 without one; empty for a command of psql."""
    rows: int = 0
    """Rows that were returned or changed."""
    seconds: float = 0.0
    ended: bool = False
    """Whether psql ended there: by an error under ON_ERROR_STOP, or by the script's own will."""
    error: str = ""
    """The first error, also of a command of psql or within a file that it reads; empty without one."""


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
    items: Growth = 0
    """Rows that it added to ITEMS."""
    bytes: Growth = 0
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
    """The names of the scripts."""
    release: int
    """Of the servers."""
    steps: list[Step] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    waits: dict[str, Waits] = field(default_factory=dict)
    """`plain`, `captured` → what writers met."""
    notes: list[str] = field(default_factory=list)
    """What is to be known about the copy."""
    equal_after: dict[str, float | None] = field(default_factory=dict)
    """Slave → seconds from the end of the scripts until it had everything."""
    prefix: str = ""
    """The replication whose configuration was rehearsed; empty for one of every table."""
    began: Instant = ""
    """When."""
    given_rows: bool = False
    """Whether tables had rows before the scripts that were not made up: a sample of the master's, or a file's."""
    format: int = FORMAT

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


@dataclass(frozen=True)
class Kept:
    """A report that is kept with its replication."""

    by: str
    at: Instant
    """When it was kept."""
    report: Report


def rehearsable(replication: Replication) -> bool:
    """Whether its migrations can be rehearsed."""
    return replication.master.stream is None and VENDORS[replication.master.vendor].rehearsed


# -- reading


def read(kind: type[Read], text: bytes | str) -> Read:
    """The `Report` or `Kept` of a JSON text. Raises `report-refused`: with the place that is wrong, and the remedy."""
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _refused("The file", f"is no JSON ({str(error)[:100]})") from None
    made: Read = _read(kind, found, kind.__name__.lower())
    return made


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _refused(place: str, what: str) -> Terminal:
    return Terminal(
        f"{_text(place[:200])} {what}. Take the file of `{PROGRAM} rehearse PREFIX … --json FILE` of this release.",
        code="report-refused",
    )


def _read(kind: Any, value: object, place: str) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        known = _fields(kind)
        if not isinstance(value, dict):
            raise _refused(place, "is no object")
        if kind is Report and value.get("format") != FORMAT:
            raise _refused(f"{place}.format", f"is not {FORMAT}: another release wrote it, or another program")
        for name in (*known, *value):
            if name not in value or name not in known:
                raise _refused(f"{place}.{name}", "is missing" if name in known else "is not known")
        return kind(**{name: _read(known[name], value[name], f"{place}.{name}") for name in known})
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value is None else _read(inner[0], value, place)
    if origin is list:
        if not isinstance(value, list):
            raise _refused(place, "is no list")
        return [_read(inner[0], each, f"{place}[{number}]") for number, each in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise _refused(place, "is no object")
        return {_text(name): _read(inner[1], each, f"{place}.{name}") for name, each in value.items()}
    if kind == Instant:
        return _instant(value, place)
    return _plain(kind, value, place)


def _plain(kind: object, value: object, place: str) -> object:
    if kind is str:
        if not isinstance(value, str):
            raise _refused(place, "is no text")
        return _text(value)
    if kind is bool:
        if not isinstance(value, bool):
            raise _refused(place, "is neither true nor false")
        return value
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole and not (kind is float and isinstance(value, float) and isfinite(value)):
        raise _refused(place, "is no number" if kind is float else "is no whole number")
    assert isinstance(value, int | float)
    if abs(value) > LARGEST or (value < 0 and kind != Growth):
        raise _refused(place, "is too large" if value > 0 else "is negative")
    return value


def _instant(value: object, place: str) -> str:
    try:
        time = datetime.fromisoformat(str(value))
        zoned = time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError):
        zoned = None
    if zoned is None:
        raise _refused(place, "is no time with a time zone")
    return zoned.isoformat(timespec="seconds")


def _text(value: str) -> str:
    """Without half characters, which no page can be made of."""
    return value.encode(errors="replace").decode()


@cache
def _fields(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


# -- keeping


def to_keep(report: Report, replication: Replication) -> Report:
    """The report as it may be kept with the replication.

    What servers printed is hidden if the rows were not made up: they may be of columns that `verify.mask` masks, and a
    result does not say of which columns it is made. Raises `report-refused`.
    """
    if report.prefix != str(replication.prefix):
        of = f"of {report.prefix}" if report.prefix else "of no replication: it was made without a PREFIX"
        raise Terminal(
            f"The report is {of[:100]}, and {replication.prefix} may replicate other tables to other slaves. "
            f"Use `{PROGRAM} rehearse {replication.prefix} …`, with --schema FILE also without its master.",
            code="report-refused",
        )
    report = _changed(report, _cut)
    if not report.given_rows:
        return report
    note = "What the servers printed is hidden here, since rows of the rehearsal were not made up."
    hidden = without_rows(report)
    return replace(hidden, notes=[*hidden.notes, note])


PRINTED = ("output", "error", "difference", "errors")
"""Fields of what a server said, which may hold any value of a row."""


def without_rows(report: Report) -> Report:
    """The report with values of rows hidden."""
    return _changed(report, _hide)


def _cut(text: str, _: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _hide(text: str, key: str) -> str:
    return HIDDEN if text and key in PRINTED else without_values(text)


def _changed(report: Report, change: Callable[[str, str], str]) -> Report:
    """The report with each text changed. `change` gets it with the name of its field."""

    def changed(value: object, key: str) -> Any:
        if isinstance(value, str):
            return change(value, key)
        if isinstance(value, list):
            return [changed(each, key) for each in value]
        if isinstance(value, dict):
            if key == "errors":
                counts = Counter[str]()
                for text, number in value.items():
                    counts[change(text, key)] += number
                return counts
            return {name: changed(each, name) for name, each in value.items()}
        return value

    made: Report = _read(Report, changed(report.as_dict(), ""), "report")
    return made


# -- the page


def page(report: Report, kept: Kept | None = None) -> str:
    """HTML of the report: one file, no script, nothing fetched, light and dark. `kept`: by whom, and when."""
    return _environment().get_template("rehearsal.html").render(report=report, kept=kept).lstrip()


@cache
def _environment() -> Environment:
    made = templates_in(Path(__file__).parent / "templates")
    made.globals |= {"counted": counted, "SHOWN": SHOWN}
    made.filters["clock"] = clock
    made.filters["milliseconds"] = lambda seconds: f"{seconds * 1000:,.0f} ms"
    return made
