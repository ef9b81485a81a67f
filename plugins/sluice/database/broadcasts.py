"""What vendors do for queries to the master and its slaves at one position."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sluice.database.session import Session
from sluice.model.broadcast import Answer, Broadcast, Row
from sluice.model.position import Position


@dataclass(frozen=True)
class Query:
    """A query of `person` to some slaves and their master."""

    statement: str
    person: str
    slaves: tuple[str, ...] = ()
    """Empty: all of the configuration."""
    seconds: float = 10.0
    """How long it may take on each server; on a slave nothing is applied meanwhile."""
    shown: int = 10
    """The number of rows of an answer that are stored."""


@dataclass(frozen=True)
class Queued:
    """A query that was queued."""

    id: int
    snapshot: str
    """The snapshot of the position in which the master reads; it can be used until the asking transaction ends."""


@dataclass(frozen=True)
class Waiting:
    """A query that a slave has not answered."""

    id: int
    statement: str
    seconds: float
    shown: int
    position: Position
    """The position at which it answers, which can be the end of a window."""


class Queries(Protocol):
    """Runs queries of people, over an autocommit session that can only read, in its own transaction."""

    def run(
        self,
        connection: Session,
        statement: str,
        most: int,
        entered: Callable[[], None] | None = None,
        snapshot: str = "",
    ) -> tuple[Row, list[Row]]:
        """Columns and rows as texts, `most` rows and one more at most. One query, and nothing that is none.

        `snapshot`: in which it reads; `entered` is called as soon as it may end elsewhere.
        """
        ...


class Broadcasts(Protocol):
    """Those of a prefix on a master, over an autocommit session."""

    def offered(self) -> bool:
        """Whether the installation knows queries: an older release's does not."""
        ...

    def ask(self, query: Query) -> AbstractContextManager[Queued]:
        """Queues a query. No captured change commits between its position and the end of the block, so no slave has
        passed the one and not met the other. Raises `LockNotAvailable` if writers are in the way.
        """
        ...

    def next_for(self, slave: str, seen: Position) -> Waiting | None:
        """The oldest query that `slave`, which stands at `seen`, has not answered."""
        ...

    def answer(self, id_: int, replier: str, answer: Answer) -> None:
        """Keeps the answer of `replier`, a slave; empty: the master. The first one counts."""
        ...

    def withdraw(self, id_: int) -> None: ...

    def read(self, id_: int | None, number: int) -> list[Broadcast]:
        """The query `id_`, or the last ones, `number` of them at most."""
        ...
