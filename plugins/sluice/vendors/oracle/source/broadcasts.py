"""Queries at one position: not available with an Oracle master (`sluice.database.broadcasts`)."""

from contextlib import AbstractContextManager

from sluice.database.broadcasts import Query, Queued, Waiting
from sluice.database.session import Session
from sluice.model.broadcast import Answer, Broadcast
from sluice.model.names import Prefix
from sluice.model.position import Position
from sluice.vendors.oracle.not_offered import NotOffered

_WHAT = "query that goes to all databases"
_REMEDY = "Ask each database by itself."


def offered(connection: Session, prefix: Prefix, schema: str) -> bool:
    return False


def ask(connection: Session, prefix: Prefix, schema: str, query: Query) -> AbstractContextManager[Queued]:
    raise NotOffered(_WHAT, _REMEDY)


def next_for(connection: Session, prefix: Prefix, schema: str, slave: str, seen: Position) -> Waiting | None:
    return None


def answer(connection: Session, prefix: Prefix, schema: str, id_: int, place: str, answer: Answer) -> None:
    raise NotOffered(_WHAT, _REMEDY)


def withdraw(connection: Session, prefix: Prefix, schema: str, id_: int) -> None:
    raise NotOffered(_WHAT, _REMEDY)


def read(connection: Session, prefix: Prefix, schema: str, id_: int | None, number: int) -> list[Broadcast]:
    return []
