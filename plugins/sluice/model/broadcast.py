"""Queries to the master and its slaves at one position, and their answers. No I/O."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from sluice.model.mask import SECRET

Row = tuple[str | None, ...]

MOST_ROWS = 10_000
"""The highest number of rows of an answer."""


class AnswerState(StrEnum):
    """The state of a query on one slave."""

    WAITING = "waiting"
    EQUAL = "equal"
    """Its answer equals the master's."""
    DIFFERENT = "different"
    FAILED = "failed"


@dataclass(frozen=True)
class Answer:
    """The answer of one server."""

    count: int = 0
    digest: str = ""
    """A digest of all rows, in any order."""
    columns: Row = ()
    """The names of the columns, if the server returns them."""
    rows: tuple[Row, ...] = ()
    """The first rows; none if the configuration hides columns."""
    error: str = ""
    """Why there is no answer."""

    @classmethod
    def of(cls, columns: Row, rows: Sequence[Row], shown: int) -> "Answer":
        """`shown`: how many rows are kept; none if a column's name suggests a secret, or the names are not known."""
        if len(rows) > MOST_ROWS:
            return cls(error=f"it has more than {MOST_ROWS:,} rows: count or aggregate them")
        written = "\n".join(sorted(json.dumps(row) for row in rows))
        known = columns and not any(SECRET.search(str(column)) for column in columns)
        kept = tuple(rows[:shown]) if known else ()
        return cls(len(rows), hashlib.sha256(written.encode()).hexdigest(), columns, kept)

    @classmethod
    def failed(cls, error: Exception, *, hidden: bool) -> "Answer":
        """`hidden`: the configuration hides columns, so the error's text is not kept, which can contain any value."""
        return cls(error="it failed; why is in the server's own log" if hidden else str(error))

    def text(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def parse(cls, text: str) -> "Answer":
        values = json.loads(text)
        rows = tuple(tuple(row) for row in values.pop("rows"))
        return cls(**{**values, "columns": tuple(values["columns"]), "rows": rows})


def state(of_master: Answer | None, of_slave: Answer | None) -> AnswerState:
    """The state of one slave, from the answers so far."""
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
