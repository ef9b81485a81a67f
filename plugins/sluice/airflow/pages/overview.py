"""The first page: filters and sorts the slaves, counts their states. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sluice.airflow.pages.gathering import Gathered
from sluice.airflow.pages.message import Level, Message
from sluice.airflow.pages.run_messages import of_airflow
from sluice.airflow.pages.slave_row import SlaveRow, by_worst, master_messages, queue_level, row
from sluice.config import Survey
from sluice.configuration.model import Replication
from sluice.coordination.live_state import LiveMaster
from sluice.counted import duration
from sluice.model.slave_state import SlaveState

SORTS: dict[str, Callable[[SlaveRow], tuple[float, ...]]] = {
    "state": lambda one: (-one.level, list(SlaveState).index(one.state) if one.state else -1),
    "lag": lambda one: (-1.0 if one.lag is None else one.lag,),
    "rate": lambda one: (one.rate,),
    "rejects": lambda one: (len(one.rejects),),
    "tables": lambda one: (len(one.not_ready), one.tables),
    "verified": lambda one: (one.verified.timestamp() if one.verified else 0.0,),
}
"""Sort keys of the table, besides the name."""
FIRST_DOWN = frozenset({"lag", "rate", "rejects", "tables"})
"""Sort keys whose greatest value comes first."""


@dataclass(frozen=True)
class Choice:
    """The filter and the order that the visitor chose."""

    find: str = ""
    """Text in the name of prefix or slave, or in its sentence or messages."""
    state: str = ""
    level: str = ""
    """`attention`: only slaves that need a person."""
    sort: str = ""
    """A key of `SORTS`, reversed by a `-` before it; empty: by master and name."""

    @property
    def key(self) -> str:
        return self.sort.removeprefix("-") if self.sort.removeprefix("-") in SORTS else ""

    @property
    def descends(self) -> bool:
        return self.sort.startswith("-") is not (self.key in FIRST_DOWN)


@dataclass(frozen=True)
class MasterGroup:
    """A replication with those of its slaves that are shown."""

    prefix: str
    source: str
    """Vendor and connection, or the folder of the recorded files."""
    live: LiveMaster
    queue_level: Level
    messages: tuple[Message, ...]
    rows: tuple[SlaveRow, ...]
    slaves: int
    """Number of all its slaves."""
    oldest: datetime | None
    """The time of the slowest slave's position: the oldest waiting change is not older."""

    @property
    def level(self) -> Level:
        """The level of its worst message."""
        return max((message.level for message in self.messages), default=Level.OK)


@dataclass(frozen=True)
class Broken:
    """A replication with mistakes in its file. `prefix` is empty if the file has none."""

    prefix: str
    mistakes: Sequence[str]
    """File, line, key, mistake and remedy."""


@dataclass(frozen=True)
class Overview:
    """What the overview shows."""

    groups: tuple[MasterGroup, ...]
    """Groups by master; empty if the visitor chose an order."""
    rows: tuple[SlaveRow, ...]
    """All slaves in the chosen order; empty without one."""
    masters: tuple[MasterGroup, ...]
    """All masters that need a person, shown or not, worst first."""
    attention: tuple[SlaveRow, ...]
    """All slaves that need a person, shown or not, worst first."""
    states: Mapping[str, int]
    slaves: int
    shown: int
    choice: Choice
    broken: tuple[Broken, ...] = field(default=())
    messages: tuple[Message, ...] = ()
    """What concerns all of them, worst first."""


def overview(gathered: Gathered, choice: Choice, now: datetime) -> Overview:
    """`now`: with a time zone."""
    survey, now = gathered.survey, gathered.moment(now)
    every, groups = [], []
    for replication in survey.replications:
        rows = rows_of(gathered, replication, now)
        every += rows
        groups.append(_group(replication, gathered, rows, choice, now))
    shown = [one for group in groups for one in group.rows]
    if choice.key:
        shown.sort(key=lambda one: (one.prefix, one.slave))
        shown.sort(key=SORTS[choice.key], reverse=choice.descends)
    return Overview(
        tuple(group for group in groups if group.rows or not choice_narrows(choice)) if not choice.key else (),
        tuple(shown) if choice.key else (),
        tuple(sorted((group for group in groups if group.level), key=lambda group: (-group.level, group.prefix))),
        tuple(by_worst(every)),
        Counter(one.word for one in every),
        len(every),
        len(shown),
        choice,
        broken(survey),
        of_all(gathered, now),
    )


def rows_of(gathered: Gathered, replication: Replication, now: datetime) -> list[SlaveRow]:
    """All slaves of a replication. `now`: of `Gathered.moment`."""
    prefix = replication.prefix
    return [
        row(replication, slave, gathered.live.slave(prefix, slave), now, gathered.beside(prefix, slave))
        for slave in replication.slaves
    ]


def of_all(gathered: Gathered, now: datetime) -> tuple[Message, ...]:
    """What concerns every replication, and applies that no file configures; worst first."""
    pairs = frozenset((str(one.prefix), slave) for one in gathered.survey.replications for slave in one.slaves)
    messages = [message for message in of_airflow(gathered.airflow, pairs, now) if message.level]
    messages += [Message(gathered.store, Level.CRITICAL)] if gathered.store else []
    messages += [Message(text, Level.WARNING) for text in gathered.warnings]
    return tuple(sorted(messages, key=lambda message: -message.level))


def choice_narrows(choice: Choice) -> bool:
    """Whether the choice filters slaves."""
    return bool(choice.find or choice.state or choice.level)


def matches(one: SlaveRow, choice: Choice) -> bool:
    if choice.state and one.word != choice.state:
        return False
    if choice.level and not one.level:
        return False
    text = " ".join([one.pair, one.sentence, *(message.text for message in one.messages)]).lower()
    return all(word in text for word in choice.find.lower().split())


def broken(survey: Survey) -> tuple[Broken, ...]:
    """Replications with mistakes, and files without a prefix."""
    named = [Broken(prefix, [str(each) for each in mistakes]) for prefix, mistakes in survey.broken.items()]
    known = {each for mistakes in survey.broken.values() for each in mistakes}
    rest = [str(each) for each in survey.mistakes if each not in known]
    return (*named, *([Broken("", rest)] if rest else []))


def source_of(replication: Replication) -> str:
    """Vendor and connection, or folder, of the master."""
    master = replication.master
    return f"{master.vendor}, {master.location or master.conn_id}"


def lag_words(seconds: float | None) -> str:
    """A lag as a short text for a column."""
    if seconds is None:
        return "–"
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)


def _group(
    replication: Replication, gathered: Gathered, rows: Iterable[SlaveRow], choice: Choice, now: datetime
) -> MasterGroup:
    listed, live = list(rows), gathered.live.master(replication.prefix)
    return MasterGroup(
        str(replication.prefix),
        source_of(replication),
        live,
        queue_level(replication, live),
        tuple(master_messages(replication, live, now, gathered.airflow)),
        tuple(one for one in listed if matches(one, choice)),
        len(listed),
        min((one.as_of for one in listed if one.as_of), default=None),
    )
