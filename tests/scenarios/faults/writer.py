"""Writers that keep the history: a transaction ends with its line in the log.

The line has writer, number, transaction ID, and what the transaction changed of each digest. So the master's log is the
history: a transaction that has a line there was committed, any other was not, whatever its writer was told when the
master crashed.
"""

import math
import time
from dataclasses import replace
from typing import Any

import psycopg

from sluice.model.connection import ConnectionInfo
from tests.scenarios.faults.plan import Plan
from workload.operations import EVENTS, PARTITION_GONE, Work, label
from workload.tables import BY_NAME, TABLES
from workload.writer import BULK, PARTITION_DDL, SHORT, SLOW, TABLE_DDL, Profile, Writer

_COLUMNS = ", ".join(f"{table.name}_rows, {table.name}_sum" for table in TABLES)
_PLACES = ", ".join("%s, %s" for _ in TABLES)
LINE = (
    f"INSERT INTO public.log (writer, n, xid, what, {_COLUMNS})"
    f" VALUES (%s, %s, pg_current_xact_id()::text::bigint, %s, {_PLACES}) RETURNING xid"
)
CAST = (SHORT, SHORT, SHORT, SLOW, BULK, TABLE_DDL, PARTITION_DDL)
RARE_TABLE_DDL, RARE_PARTITION_DDL = replace(TABLE_DDL, pause=(2.0, 6.0)), replace(PARTITION_DDL, pause=(2.0, 6.0))
RARE = (SHORT, SHORT, SHORT, SLOW, BULK, RARE_TABLE_DDL, RARE_PARTITION_DDL)
"""Where the checkpoint is kept in Redis: after TRUNCATE and a change of a definition it goes to the slave as well, and
then little comes again."""
MOVING_FALLBACK = (RARE_TABLE_DDL, RARE_PARTITION_DDL, BULK)
"""Those, and who writes so much that it goes in slices."""
RARE_BULK, LABELLER = replace(BULK, pause=(2.0, 5.0)), replace(PARTITION_DDL, operations=(label,), pause=(1.0, 3.0))
FOR_MARIADB = (SHORT, SHORT, SLOW, RARE_BULK, RARE_TABLE_DDL, LABELLER)
"""There each change of a definition ends a slice, and a partition that goes with its rows is refused."""


def cast(plan: Plan) -> tuple[Profile, ...]:
    """The writers of a run."""
    if plan.mariadb:
        return FOR_MARIADB
    return RARE if plan.kept == "redis" else CAST


def events(plan: Plan) -> frozenset[str]:
    """The events that must happen in a run."""
    return EVENTS - {PARTITION_GONE} if plan.mariadb else EVENTS


class DigestedWork(Work):
    """Records its changes of each table's digest."""

    def __init__(self, connection: psycopg.Connection[Any], number: int, *, durable: bool):
        super().__init__(connection, number)
        self.durable = durable
        self.deltas = dict.fromkeys(BY_NAME, (0, 0))
        self.xid = 0
        # Also opens the transaction.
        self.run(f"SET LOCAL synchronous_commit = {'on' if durable else 'off'}")

    def change(self, name: str, statement: str, *values: Any) -> None:
        table = BY_NAME[name]
        first = table.columns[0]
        row = self.run(
            f"WITH c AS ({statement} RETURNING old.{first} IS NOT NULL AS was, {table.hash('old')} AS o,"
            f" new.{first} IS NOT NULL AS stays, {table.hash('new')} AS n)"
            " SELECT count(*) FILTER (WHERE stays) - count(*) FILTER (WHERE was),"
            " coalesce(sum(n) FILTER (WHERE stays), 0) - coalesce(sum(o) FILTER (WHERE was), 0), count(*) FROM c",
            *values,
        )
        self.note(name, row[0], row[1])
        self.changes += row[2]

    def note(self, name: str, rows: int, total: int) -> None:
        before = self.deltas[name]
        self.deltas[name] = (before[0] + rows, before[1] + int(total))

    def state(self) -> Any:
        return super().state(), dict(self.deltas)

    def restore(self, state: Any) -> None:
        super().restore(state[0])
        self.deltas = state[1]


class HistoryWriter(Writer):
    """`lazy`: some commits do not wait for the disk."""

    def __init__(self, master: ConnectionInfo, number: int, profile: Profile, seed: int, *, lazy: bool):
        super().__init__(master, number, profile, seed)
        self.lazy = lazy
        self.acknowledged: set[tuple[int, int]] = set()
        """(number of the transaction, xid) of those whose durable commit the master confirmed."""
        self.spans: dict[int, tuple[float, float]] = {}
        """Of each transaction, when it began and when it was confirmed, by `time.monotonic`."""
        self.events: set[str] = set()
        """What happened, of `operations.EVENTS`."""
        self._n = 0
        self._began = 0.0

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        # Our backend of before may have committed without being able to say so.
        last = "SELECT coalesce(max(n), 0) FROM public.log WHERE writer = %s"
        row = connection.execute(last, [self.number]).fetchone()
        assert row is not None
        self._n = row[0]

    def work(self, connection: psycopg.Connection[Any]) -> Work:
        self._began = time.monotonic()
        return DigestedWork(connection, self.number, durable=not (self.lazy and self.chance.random() < 0.5))

    def sign(self, work: Work, done: list[str]) -> None:
        assert isinstance(work, DigestedWork)
        deltas = [number for table in TABLES for number in work.deltas[table.name]]
        self.spans[self._n + 1] = (self._began, math.inf)
        (work.xid,) = work.run(LINE, self.number, self._n + 1, " ".join(done), *deltas)

    def confirmed(self, work: Work) -> None:
        assert isinstance(work, DigestedWork)
        self._n += 1
        self.spans[self._n] = (self._began, time.monotonic())
        self.events.update(work.events)
        if work.durable:
            self.acknowledged.add((self._n, work.xid))
