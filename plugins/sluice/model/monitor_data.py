"""The monitor as data: what its pages give programs as JSON. Times are ISO 8601."""

from collections.abc import Mapping, Sequence
from typing import TypedDict


class MessageData(TypedDict):
    """A message of the monitor."""

    level: str
    """fine, warning or critical."""
    text: str
    remedy: str
    """The action that helps; empty without one."""
    tables: str
    """The tables of that action, one a line; empty if it is not for some."""
    dag: str
    run: str
    """The run of `dag` that it is about; empty if it is about none."""
    failed: bool
    """Whether that run has failed, so that a person may put it aside."""
    question: str
    """The id of the run's question; empty if none waits for an answer."""
    details: str
    """The question's evidence and what each answer does, in Markdown."""


class EventData(TypedDict):
    """An event of a slave."""

    at: float
    """Seconds since 1970."""
    kind: str
    text: str


class SlaveOverview(TypedDict):
    """A slave in the overview."""

    slave: str
    state: str
    level: str
    """Of its worst message."""
    sentence: str
    """What it does now."""
    current_as_of: str | None
    lag_seconds: float | None
    changes_per_second: float
    applying: bool
    connection: str
    applied_by: str
    since: str | None
    safe_mode: str
    tables: int
    not_ready: Mapping[str, str]
    loading: Sequence[str]
    rejects: Sequence[str]
    """Tables with open rejects."""
    verified_through: str | None
    not_equal: int
    """How many tables the last comparison did not find equal."""
    closures: Sequence[str]
    messages: Sequence[MessageData]


class WholeSlave(SlaveOverview):
    """With what its database says, and its events."""

    at: str | None
    trouble: str
    prefix: str
    changes: int | None
    load: Sequence[str]
    rejected: int
    rejected_changes: Sequence[str]
    database: str
    """What its database was in the last change of the master, in words; empty if it took part in none."""
    switches: Sequence[Mapping[str, str]]
    """Who was the master when, oldest first: `sluice.model.failover.Switch`."""
    events: Sequence[EventData]


class QueueData(TypedDict):
    """ITEMS."""

    at: str
    changes: int
    bytes: int
    held_by: Sequence[str]
    oldest: str | None
    resources: int | None


MasterOverview = TypedDict(
    "MasterOverview",
    {
        "prefix": str,
        "from": str,
        "queue": QueueData | None,
        "messages": Sequence[MessageData],
        "slaves": Sequence[SlaveOverview],
    },
)


class BrokenData(TypedDict):
    """A replication whose configuration has mistakes."""

    prefix: str
    mistakes: Sequence[str]


class Overview(TypedDict):
    """The overview of all replications."""

    at: str | None
    trouble: str
    messages: Sequence[MessageData]
    """What concerns all replications."""
    masters: Sequence[MasterOverview]
    broken: Sequence[BrokenData]
