"""A failover of a slave: its actions, its phases and its record. No I/O."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sluice.model.names import TableName
from sluice.model.schema_definitions import Definition


class Action(StrEnum):
    """The action of the DAG."""

    CHECK = "check"
    PLANNED = "planned"
    FORCED = "forced"
    ABORT = "abort"


class Phase(StrEnum):
    """The phase of a failover. The slave stores it when the work of the phase is done."""

    BEGUN = "begun"
    VERIFIED = "verified"
    """Every table was compared while the application wrote."""
    PREPARED = "prepared"
    """What takes long is done, and the master's guard can be closed at once."""
    GUARDED = "guarded"
    """The master refuses writes; the last position is known."""
    REACHED = "reached"
    """The slave has applied the last position."""
    ENDED = "ended"
    """Nothing is applied to the slave any more."""
    COMPLETED = "completed"
    """Definitions and sequences are as the master's."""
    CAPTURED = "captured"
    """With `reverse`: changes of the slave are captured."""
    SWITCHED = "switched"
    """The slave is a master. From here on only another failover leads back."""
    FINISHED = "finished"
    ABORTED = "aborted"


MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.BEGUN: frozenset({Phase.VERIFIED, Phase.ENDED, Phase.ABORTED}),
    Phase.VERIFIED: frozenset({Phase.PREPARED, Phase.ABORTED}),
    Phase.PREPARED: frozenset({Phase.GUARDED, Phase.ABORTED}),
    Phase.GUARDED: frozenset({Phase.REACHED, Phase.ABORTED}),
    Phase.REACHED: frozenset({Phase.ENDED, Phase.ABORTED}),
    Phase.ENDED: frozenset({Phase.COMPLETED, Phase.ABORTED}),
    Phase.COMPLETED: frozenset({Phase.CAPTURED, Phase.ABORTED}),
    Phase.CAPTURED: frozenset({Phase.SWITCHED, Phase.ABORTED}),
    Phase.SWITCHED: frozenset({Phase.FINISHED}),
    Phase.FINISHED: frozenset(),
    Phase.ABORTED: frozenset(),
}
"""The allowed transitions from each phase. A forced failover goes from BEGUN to ENDED."""

_ORDER = list(Phase)


def passed(now: Phase, reached: Phase) -> bool:
    """Whether the work of `reached` is done in phase `now`."""
    return now is not Phase.ABORTED and _ORDER.index(now) >= _ORDER.index(reached)


def under_way(phase: Phase) -> bool:
    """Whether another failover has to wait for it."""
    return bool(MOVES[phase])


@dataclass(frozen=True)
class SequenceValue:
    """The value of a sequence of the master."""

    table: TableName | None
    """The table whose column uses it; None: applications call it."""
    column: str
    schema: str
    name: str
    increment: int
    minimum: int
    maximum: int
    last: int | None
    """None: no number was drawn yet."""

    def __str__(self) -> str:
        return f"{self.table}.{self.column}" if self.table else f"sequence {TableName(self.schema, self.name)}"

    def to_dict(self) -> dict[str, object]:
        table = [self.table.schema, self.table.name] if self.table else None
        return {**self.__dict__, "table": table}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SequenceValue":
        return cls(**{**values, "table": TableName(*values["table"]) if values["table"] else None})

    def beyond(self, used: int | None, gap: int) -> int | None:
        """The value to set, so that the next number is free; None if no number was ever drawn or used.

        `used`: the farthest value in its column. `gap`: how many numbers may have been drawn without being known.
        """
        values = [value for value in (self.last, used) if value is not None]
        if not values:
            return None
        if self.increment > 0:
            return min(max(values) + gap * self.increment, self.maximum)
        return max(min(values) + gap * self.increment, self.minimum)


@dataclass(frozen=True)
class Switch:
    """One change of the master: a slave became the master in place of another database."""

    failover: str
    """Its id."""
    action: Action
    slave: str
    """The name that the new master had as a slave."""
    master: str
    """The new master: `user@host:port/database`, and the connection's name."""
    former: str
    """The former one."""
    at: str
    """When it became the master, by its clock: ISO 8601, UTC."""
    by: str
    guarded_at: str = ""
    """Since when the former master refused writes, by the same clock; empty in a forced failover."""

    def to_dict(self) -> dict[str, str]:
        return dict(self.__dict__)


def switches_of(*stored: Iterable[Mapping[str, str]]) -> tuple[Switch, ...]:
    """The switches that several rows have stored, each once, oldest first."""
    found = {Switch(**{**one, "action": Action(one["action"])}) for several in stored for one in several}  # type: ignore[arg-type]
    return tuple(sorted(found, key=lambda one: (one.at, one.failover)))


def who(address: str, switches: Sequence[Switch]) -> str:
    """What a database is by its last switch, in words; empty if it took part in none."""
    last = next((one for one in reversed(switches) if address in (one.master, one.former)), None)
    if last is None:
        return ""
    at = f"{last.at[:19].replace('T', ' ')} UTC"
    return f"the master since {at}" if address == last.master else f"the master until {at}"


@dataclass(frozen=True)
class Sheet:
    """The master's definitions as stored on the slave for a failover without the master."""

    master: str
    """`user@host:port/database`, and the connection's name."""
    time: str
    """When it was read, by the master's clock: ISO 8601, UTC."""
    definitions: tuple[Definition, ...] = ()
    sequences: tuple[SequenceValue, ...] = ()
    unreplicated: tuple[TableName, ...] = ()
    """Tables of the master that are not replicated."""
    tables: tuple[TableName, ...] = ()
    """The replicated tables."""
    switches: tuple[Switch, ...] = ()
    """How the master became one. Stored beside the text, with what the slave knows."""

    def text(self) -> str:
        """As it is kept."""
        return json.dumps(
            {
                "master": self.master,
                "time": self.time,
                "definitions": [one.to_dict() for one in self.definitions],
                "sequences": [one.to_dict() for one in self.sequences],
                "unreplicated": [[one.schema, one.name] for one in self.unreplicated],
                "tables": [[one.schema, one.name] for one in self.tables],
            },
            ensure_ascii=False,
        )

    @classmethod
    def parse(cls, text: str) -> "Sheet":
        values = json.loads(text)
        return cls(
            values["master"],
            values["time"],
            tuple(Definition.from_dict(one) for one in values["definitions"]),
            tuple(SequenceValue.from_dict(one) for one in values["sequences"]),
            tuple(TableName(*one) for one in values["unreplicated"]),
            tuple(TableName(*one) for one in values["tables"]),
        )


@dataclass(frozen=True)
class Made:
    """A change that a failover has made on the slave."""

    what: str
    undo: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """A row of `<prefix>FAILOVER`: the last or the running failover of a slave."""

    id: str
    action: Action
    phase: Phase
    reverse: bool
    by: str
    begun_at: str
    last: str = ""
    """The master's last position, as text; for a forced failover, the last applied position."""
    start: str = ""
    """The slave's position at which its capture began, as text."""
    verified: str = ""
    """What was verified, in words."""
    made: tuple[Made, ...] = field(default=())
    guarded_at: str = ""
    """Since when the master has refused writes, by the slave's clock: ISO 8601, UTC."""
    compared: str = ""
    """The position up to which the slave was compared, as text."""

    @property
    def under_way(self) -> bool:
        return under_way(self.phase)

    @property
    def refuses(self) -> bool:
        """Whether it makes its master refuse writes now."""
        guarded = passed(self.phase, Phase.GUARDED) and not passed(self.phase, Phase.SWITCHED)
        return self.action is Action.PLANNED and guarded


REFUSAL = "The master refuses writes since "


def refusal(record: Record) -> str:
    """For status and pages, while a failover makes its master refuse writes."""
    return f"{REFUSAL}{record.guarded_at}, for failover {record.id}, until this slave is the master or it is aborted"


def refused_since(message: str, failover_id: str) -> str:
    """Since when the failover makes its master refuse writes, by the slave's `message`; empty if it does not."""
    found = re.search(rf"{REFUSAL}(\S+), for failover {re.escape(failover_id)},", message)
    return found[1] if found else ""
