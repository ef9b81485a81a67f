"""Queries that run on the master and on slaves at one position (`sluice.database.broadcasts.Broadcasts`).

For some milliseconds a lock keeps captured changes out, while the position is taken and the query queued. So the
replicated tables do not change between that position and the commit that queues the query, and a slave that does not
see the query has nothing from after it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from sluice import sql_files
from sluice.database import lock_waits
from sluice.database.broadcasts import Query, Queued, Waiting
from sluice.database.session import Session
from sluice.model.broadcast import Answer, Broadcast
from sluice.model.names import Prefix
from sluice.model.position import Position
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.session_settings import limit_lock_waits
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source import position


def offered(connection: Session, prefix: Prefix, schema: str) -> bool:
    """See `Broadcasts`."""
    table = quoted(schema, f"{prefix.lower}statements")
    return connection.execute("SELECT to_regclass(%s) IS NOT NULL", [table]).fetchone() == (True,)


@contextmanager
def ask(connection: Session, prefix: Prefix, schema: str, query: Query) -> Iterator[Queued]:
    """See `Broadcasts`."""
    with connection.transaction():
        limit_lock_waits(connection, lock_waits.LOCK_SECONDS)
        connection.execute(f"LOCK TABLE {quoted(schema, f'{prefix.lower}items')} IN SHARE MODE".encode())
        now = position.take(connection, prefix, schema)
        row = connection.execute(
            sql_files.render("postgres", "statements_put", prefix=prefix.lower, schema=quoted(schema)),
            {**vars(query), "slaves": list(query.slaves), "position": now.text()},
        ).fetchone()
        assert row is not None
        yield Queued(*row)


def next_for(connection: Session, prefix: Prefix, schema: str, slave: str, seen: Position) -> Waiting | None:
    """See `Broadcasts`."""
    row = connection.execute(
        sql_files.render("postgres", "statements_next", prefix=prefix.lower, schema=quoted(schema)), {"slave": slave}
    ).fetchone()
    if row is None:
        return None
    id_, statement, seconds, shown, text = row
    wanted = SnapshotPosition.parse(text)
    ahead = not seen.covers_all_of(wanted)
    return Waiting(id_, statement, seconds, shown, wanted.after(seen) if ahead else wanted)


def answer(connection: Session, prefix: Prefix, schema: str, id_: int, place: str, answer: Answer) -> None:
    """See `Broadcasts`."""
    text = sql_files.render("postgres", "statements_answer", prefix=prefix.lower, schema=quoted(schema))
    connection.execute(text, {"id": id_, "place": place, "answer": answer.text()})


def withdraw(connection: Session, prefix: Prefix, schema: str, id_: int) -> None:
    """See `Broadcasts`."""
    text = sql_files.render("postgres", "statements_withdraw", prefix=prefix.lower, schema=quoted(schema))
    connection.execute(text, {"id": id_})


def read(connection: Session, prefix: Prefix, schema: str, id_: int | None, number: int) -> list[Broadcast]:
    """See `Broadcasts`."""
    rows = connection.execute(
        sql_files.render("postgres", "statements_read", prefix=prefix.lower, schema=quoted(schema)),
        {"id": id_, "number": number},
    ).fetchall()
    broadcasts = []
    for number_, statement, slaves, asked_by, asked_at, texts in rows:
        texts = json.loads(texts) if isinstance(texts, str) else texts
        answers = {place: Answer.parse(text) for place, text in texts.items()}
        of_slaves = {slave: answers.get(slave) for slave in slaves}
        broadcasts.append(Broadcast(number_, statement, asked_by, asked_at, answers.get(""), of_slaves))
    return broadcasts
