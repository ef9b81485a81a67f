"""Queries of people: one statement that begins like a query, in a transaction that can only read."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from sluice.database.broadcasts import Queries
from sluice.database.errors import StatementFailed
from sluice.database.session import Session
from sluice.model.broadcast import Row


class PlainQueries(Queries, ABC):
    """Queries of people, in a session that can only read."""

    begins: tuple[str, ...]
    """The words with which a query begins."""

    @abstractmethod
    def rows(self, connection: Session, statement: str, most: int) -> Iterable[tuple[object, ...]]:
        """The first rows, `most` at most."""

    def run(
        self,
        connection: Session,
        statement: str,
        most: int,
        entered: Callable[[], None] | None = None,
        snapshot: str = "",
    ) -> tuple[Row, list[Row]]:
        """See `Queries`; there are no snapshots to enter."""
        if not re.match(rf"\s*\(*\s*({'|'.join(self.begins)})\b", statement, re.IGNORECASE):
            *some, last = self.begins
            raise StatementFailed(f"It is no query: it must begin with {', '.join(some)} or {last}.")
        return (), [tuple(map(_text, row)) for row in self.rows(connection, statement, most + 1)]


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return "\\x" + bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)
