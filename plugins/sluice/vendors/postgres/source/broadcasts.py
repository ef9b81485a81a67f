"""Queries that run on the master and on slaves at one position (`sluice.database.broadcasts.Broadcasts`).

For some milliseconds a lock keeps captured changes out, while the position is taken and the query queued. So the
replicated tables do not change between that position and the commit that queues the query, and a slave that does not
see the query has nothing from after it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from sluice.database import lock_waits
from sluice.database.broadcasts import Query, Queued, Waiting
from sluice.model.broadcast import Answer, Broadcast
from sluice.model.position import Position
from sluice.vendors.postgres.sessions import limit_lock_waits
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source.bound import Bound
from sluice.vendors.postgres.source.queue import PostgresQueue


class PostgresBroadcasts(Bound):
    """See `sluice.database.broadcasts.Broadcasts`."""

    def offered(self) -> bool:
        table = self.name("statements")
        return self.session.execute("SELECT to_regclass(%s) IS NOT NULL", [table]).fetchone() == (True,)

    @contextmanager
    def ask(self, query: Query) -> Iterator[Queued]:
        with self.session.transaction():
            limit_lock_waits(self.session, lock_waits.LOCK_SECONDS)
            self.session.execute(f"LOCK TABLE {self.name('items')} IN SHARE MODE".encode())
            now = PostgresQueue(self.session, self.prefix, self.schema).take()
            row = self.session.execute(
                self.sql("statements_put"),
                {**vars(query), "slaves": list(query.slaves), "position": now.text()},
            ).fetchone()
            assert row is not None
            yield Queued(*row)

    def next_for(self, slave: str, seen: Position) -> Waiting | None:
        row = self.session.execute(self.sql("statements_next"), {"slave": slave}).fetchone()
        if row is None:
            return None
        id_, statement, seconds, shown, text = row
        required = SnapshotPosition.parse(text)
        ahead = not seen.covers_all_of(required)
        return Waiting(id_, statement, seconds, shown, required.after(seen) if ahead else required)

    def answer(self, id_: int, replier: str, answer: Answer) -> None:
        text = self.sql("statements_answer")
        self.session.execute(text, {"id": id_, "place": replier, "answer": answer.text()})

    def withdraw(self, id_: int) -> None:
        text = self.sql("statements_withdraw")
        self.session.execute(text, {"id": id_})

    def read(self, id_: int | None, number: int) -> list[Broadcast]:
        rows = self.session.execute(
            self.sql("statements_read"),
            {"id": id_, "number": number},
        ).fetchall()
        broadcasts = []
        for number_, statement, slaves, asked_by, asked_at, texts in rows:
            texts = json.loads(texts) if isinstance(texts, str) else texts
            answers = {replier: Answer.parse(text) for replier, text in texts.items()}
            of_slaves = {slave: answers.get(slave) for slave in slaves}
            broadcasts.append(Broadcast(number_, statement, asked_by, asked_at, answers.get(""), of_slaves))
        return broadcasts
