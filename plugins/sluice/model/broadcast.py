"""Queries that a person asks of the master and of slaves at one position, and what they answer. No I/O."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from sluice.model.mask import SECRET

Row = tuple[str | None, ...]

MOST_ROWS = 10_000
"""Rows that an answer may have."""


class AnswerState(StrEnum):
    """What has become of a query on one slave."""

    WAITING = "waiting"
    EQUAL = "equal"
    """It answered what the master did."""
    DIFFERENT = "different"
    FAILED = "failed"


@dataclass(frozen=True)
class Answer:
    """Of one server."""

    count: int = 0
    digest: str = ""
    """Of all rows, in any order."""
    columns: Row = ()
    """Their names, where the server says them."""
    rows: tuple[Row, ...] = ()
    """The first of them; none where the configuration hides columns."""
    error: str = ""
    """Why there is no answer."""

    @classmethod
    def of(cls, columns: Row, rows: Sequence[Row], shown: int) -> "Answer":
        """`shown`: how many rows are kept; none where a column's name says that it is secret, or nothing is said."""
        if len(rows) > MOST_ROWS:
            return cls(error=f"it has more than {MOST_ROWS:,} rows: count or aggregate them")
        written = "\n".join(sorted(json.dumps(row) for row in rows))
        known = columns and not any(SECRET.search(str(column)) for column in columns)
        kept = tuple(rows[:shown]) if known else ()
        return cls(len(rows), hashlib.sha256(written.encode()).hexdigest(), columns, kept)

    @classmethod
    def failed(cls, error: Exception, *, hidden: bool) -> "Answer":
        """`hidden`: the configuration hides columns, and the text of an error can hold any value."""
        return cls(error="it failed; why is in the server's own log" if hidden else str(error))

    def text(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def parse(cls, text: str) -> "Answer":
        values = json.loads(text)
        rows = tuple(tuple(row) for row in values.pop("rows"))
        return cls(**{**values, "columns": tuple(values["columns"]), "rows": rows})


def state(of_master: Answer | None, of_slave: Answer | None) -> AnswerState:
    """Of one slave, from the answers that are there."""
    if of_slave is None:
        return AnswerState.WAITING
    if of_slave.error:
        return AnswerState.FAILED
    if of_master is None:
        return AnswerState.WAITING
    same = (of_slave.count, of_slave.digest) == (of_master.count, of_master.digest)
    return AnswerState.EQUAL if same else AnswerState.DIFFERENT


@dataclass(frozen=True)
class Broadcast:
    """A query with the answers so far."""

    id: int
    statement: str
    asked_by: str
    asked_at: str
    """ISO 8601, UTC."""
    master: Answer | None
    slaves: Mapping[str, Answer | None]

    def state(self, slave: str) -> AnswerState:
        return state(self.master, self.slaves[slave])

    @property
    def waiting(self) -> tuple[str, ...]:
        """Slaves that have not answered."""
        return tuple(slave for slave in self.slaves if self.state(slave) is AnswerState.WAITING)
