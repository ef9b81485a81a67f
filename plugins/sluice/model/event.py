"""Events of a slave, each in one line, for people who look for the past."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum

from sluice.model.apply_status import ApplyStatus

LONGEST = 500
"""The highest number of characters of a text that is stored."""
_WAITING = "waiting: "
_APPLYING = "applying: "
_NO_OUTAGE = ("waiting: the gate is closed", "waiting: the slave is ")
"""Texts that repeat an event of the gate or of the state."""


class EventKind(StrEnum):
    """The kind of an event."""

    START = "start"
    APPLY = "apply"
    STATE = "state"
    GATE = "gate"
    OUTAGE = "outage"
    TABLE = "table"
    DEFINITION = "definition"
    VERIFICATION = "verification"
    CONFIGURATION = "configuration"


@dataclass(frozen=True)
class Event:
    """Something that happened."""

    at: float
    """Seconds since 1970."""
    kind: EventKind
    text: str

    def stored(self) -> str:
        """The text for storage."""
        return json.dumps({**asdict(self), "at": round(self.at, 3), "text": self.text[:LONGEST]})

    @classmethod
    def parse(cls, text: str) -> "Event":
        """Reads a text of `stored`."""
        values = json.loads(text)
        return cls(values["at"], EventKind(values["kind"]), values["text"])


def between(before: ApplyStatus, after: ApplyStatus) -> Iterator[tuple[EventKind, str]]:
    """The events between two reports of an apply (`sluice.coordination.records`); `before` is empty at its start."""
    if not before:
        mode = f", safe mode {after['safe_mode']}" if after.get("safe_mode") else ""
        yield EventKind.START, f"The apply has started, epoch {after.get('epoch') or '–'}{mode}"
    if after.get("state") and before.get("state") not in (None, after["state"]):
        reason = f": {after['message']}" if after.get("message") else ""
        yield EventKind.STATE, f"{before['state']} → {after['state']}{reason}"
    yield from _activity(outage(before), outage(after))
    if str(before.get("safe_mode", "")).startswith("on") and str(after.get("safe_mode", "")).startswith("off"):
        yield EventKind.APPLY, "Safe mode is over"
    if bool(after.get("catching_up")) is not bool(before.get("catching_up")) and before:
        yield (
            EventKind.APPLY,
            (
                "A large window is applied, slice by slice"
                if after.get("catching_up")
                else "The large window is applied"
            ),
        )
    yield from _tables(before, after)
    if (mistake := after.get("configuration") or "") != (before.get("configuration") or ""):
        text = f"The configuration has a mistake: {mistake}" if mistake else "The configuration is in order again"
        yield EventKind.CONFIGURATION, text


def outage(status: ApplyStatus) -> str:
    """What the apply waits for because it is missing."""
    activity = str(status.get("activity") or "")
    waits = activity.startswith(_WAITING) and not activity.startswith(_NO_OUTAGE)
    return activity.removeprefix(_WAITING) if waits else ""


def under_way(status: ApplyStatus) -> str:
    """The long-running work of an apply, with its progress."""
    activity = str(status.get("activity") or "")
    applying = activity.removeprefix(_APPLYING) if activity.startswith(_APPLYING) else ""
    return "; ".join(filter(None, (applying, str(status.get("definitions") or ""))))


def _activity(before: str, after: str) -> Iterator[tuple[EventKind, str]]:
    if after and after != before:
        yield EventKind.OUTAGE, f"Waits: {after}"
    elif before and not after:
        yield EventKind.OUTAGE, "The apply continues"


def _tables(before: ApplyStatus, after: ApplyStatus) -> Iterator[tuple[EventKind, str]]:
    if not before:
        return
    was, now = dict(before.get("not_ready") or {}), dict(after.get("not_ready") or {})
    for table in sorted({*was, *now}):
        if was.get(table) != now.get(table):
            yield EventKind.TABLE, f"{table} is {now.get(table, 'ready')}"
    aside, still = set(before.get("set_aside") or ()), set(after.get("set_aside") or ())
    yield from ((EventKind.TABLE, f"Changes of {table} are set aside") for table in sorted(still - aside))
    yield from ((EventKind.TABLE, f"No change of {table} is set aside any more") for table in sorted(aside - still))
