"""Findings for a person, as pages, data and notices show them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum


class Level(IntEnum):
    """How urgently a person is needed."""

    OK = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def word(self) -> str:
        return ("fine", "warning", "critical")[self]


@dataclass(frozen=True)
class Message:
    """A finding for a person, with its remedy."""

    text: str
    level: Level
    remedy: str = ""
    """The action of the monitor that helps, see `sluice.operate.actions`; empty if none does."""
    table: str = ""
    """The tables of the action, if it is for some: their names, one a line."""
    lasting: str = ""
    """Key of a cause that lasts until it is fixed and has one notice; empty if another notice covers it."""
    dag: str = ""
    run: str = ""
    """The run of `dag` that it is about; empty if it is about none."""
    question: str = ""
    """The id of the run's question, which waits for an answer."""
    details: str = ""
    """Evidence of the question and what each answer does, in Markdown."""
    failed: bool = False
    """Whether the run has failed, so that a person may put it aside."""


def clock(time: datetime | None) -> str:
    """A time for people, in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if time else "–"


def short_clock(time: datetime, now: datetime) -> str:
    """The time of day in UTC, with the date unless it is today."""
    return clock(time).removeprefix(f"{now.astimezone(UTC).date()} ")
