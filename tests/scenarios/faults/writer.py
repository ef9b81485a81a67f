"""Writers: each a thread with one connection to the master and transactions decided by its seed.

A transaction ends with its line in the log: writer, number, transaction ID, and what it changed of each digest. So
the master's log is the history: a transaction that has a line there was committed, any other was not, whatever its
writer was told when the master crashed.
"""

import math
import threading
import time
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import psycopg

from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import connect
from tests.scenarios.faults import operations
from tests.scenarios.faults.operations import Work
from tests.scenarios.faults.tables import TABLES

_COLUMNS = ", ".join(f"{table.name}_rows, {table.name}_sum" for table in TABLES)
_PLACES = ", ".join("%s, %s" for _ in TABLES)
LINE = (
    f"INSERT INTO public.log (writer, n, xid, what, {_COLUMNS})"
    f" VALUES (%s, %s, pg_current_xact_id()::text::bigint, %s, {_PLACES}) RETURNING xid"
)


@dataclass(frozen=True)
class Character:
    """What a writer is like. `pause`: seconds between transactions; `dream`: seconds before a commit."""

    name: str
    operations: tuple[operations.Operation, ...]
    count: tuple[int, int]
    pause: tuple[float, float]
    dream: tuple[float, float] = (0.0, 0.0)


CLERK = Character("clerk", operations.SMALL, (1, 6), (0.0, 0.03))
DREAMER = Character("dreamer", operations.SMALL, (1, 4), (0.0, 0.5), (0.2, 3.0))
PORTER = Character("porter", (operations.pour,), (1, 2), (0.4, 1.5))
BUILDER = Character("builder", (operations.truncate, operations.define), (1, 1), (0.5, 2.0))
CHANGER = Character("changer", (operations.part, operations.label), (1, 1), (0.3, 1.5))
CAST = (CLERK, CLERK, CLERK, DREAMER, PORTER, BUILDER, CHANGER)
SELDOM, SELDOM_CHANGER = replace(BUILDER, pause=(2.0, 6.0)), replace(CHANGER, pause=(2.0, 6.0))
RARE = (CLERK, CLERK, CLERK, DREAMER, PORTER, SELDOM, SELDOM_CHANGER)
"""Where the checkpoint is kept in Redis: after TRUNCATE and a change of a definition it goes to the slave as well, and
then little comes again."""
ANCHORING = (SELDOM, SELDOM_CHANGER, PORTER)
"""Those, and who writes so much that it goes in slices."""


class Writer(threading.Thread):
    """Writes until stopped, through crashes of the master. `lazy`: some commits do not wait for the disk."""

    def __init__(self, master: ConnectionInfo, number: int, character: Character, seed: int, *, lazy: bool):
        super().__init__(name=f"{character.name} {number}", daemon=True)
        self.number = number
        self.character = character
        self.lazy = lazy
        self.chance = Random(f"{seed} writer {number}")
        self.acknowledged: set[tuple[int, int]] = set()
        """(number of the transaction, xid) of those whose durable commit the master confirmed."""
        self.spans: dict[int, tuple[float, float]] = {}
        """Of each transaction, when it began and when it was confirmed, by `time.monotonic`."""
        self.committed = self.rolled_back = self.changes = 0
        self.events: set[str] = set()
        """What happened, of `operations.EVENTS`."""
        self.failure: BaseException | None = None
        self._master = master
        self._enough = threading.Event()
        self._n = 0
        self._unfinished = False
        """A prepared transaction may wait on the master to be committed."""

    def stop(self) -> None:
        """Ends it after the transaction at hand."""
        self._enough.set()

    def run(self) -> None:
        try:
            while not self._enough.is_set() or self._unfinished:
                try:
                    with connect(self._master, application=f"writer {self.number}") as connection:
                        self._write(connection)
                except (SluiceError, psycopg.OperationalError):  # the master is down
                    self._enough.wait(0.05)
                except psycopg.InternalError as error:
                    if error.diag.severity_nonlocalized != "PANIC":
                        raise
        except BaseException as failure:
            self.failure = failure

    def _write(self, connection: psycopg.Connection[Any]) -> None:
        self._finish_prepared(connection)
        # Our backend of before may have committed without being able to say so.
        last = "SELECT coalesce(max(n), 0) FROM public.log WHERE writer = %s"
        row = connection.execute(last, [self.number]).fetchone()
        assert row is not None
        self._n = row[0]
        connection.execute("SET lock_timeout = '400ms'")
        connection.commit()
        while not self._enough.is_set():
            try:
                self._transaction(connection)
            except psycopg.Error as error:
                if connection.closed or connection.broken or error.sqlstate is None:
                    raise
                if self._unfinished:
                    connection.close()  # the next connection ends it first
                    return
                connection.rollback()  # a deadlock, a lock that came too late, a key somebody else took
                self.rolled_back += 1
            self._enough.wait(self.chance.uniform(*self.character.pause))

    def _transaction(self, connection: psycopg.Connection[Any]) -> None:
        chance, work, began = self.chance, Work(connection), time.monotonic()
        asynchronous = self.lazy and chance.random() < 0.5
        # Also opens the transaction: what follows in `connection.transaction()` is a savepoint.
        work.run(f"SET LOCAL synchronous_commit = {'off' if asynchronous else 'on'}")
        done = []
        for _ in range(chance.randint(*self.character.count)):
            operation = chance.choice(self.character.operations)
            if chance.random() < 0.12:
                self._in_vain(work, operation)
            elif chance.random() < 0.12:
                with connection.transaction():  # a savepoint that is kept
                    operation(work, chance)
            else:
                operation(work, chance)
            done.append(operation.__name__)
        if chance.random() < 0.08:
            self._enough.wait(chance.uniform(*self.character.dream))
            connection.rollback()
            self.rolled_back += 1
            return
        deltas = [number for table in TABLES for number in work.deltas[table.name]]
        self.spans[self._n + 1] = (began, math.inf)
        line = work.run(LINE, self.number, self._n + 1, " ".join(done), *deltas)
        if chance.random() < 0.04:
            # From here on the master keeps it, through crashes too: this writer must end it, now or after them.
            self._unfinished = True
            connection.execute(f"PREPARE TRANSACTION '{self._gid}'")
            self._enough.wait(chance.uniform(*self.character.dream))
            self._finish_prepared(connection)
        else:
            self._enough.wait(chance.uniform(*self.character.dream))
            connection.commit()
        self._n += 1
        self.spans[self._n] = (began, time.monotonic())
        self.committed += 1
        self.changes += work.changes
        self.events.update(work.events)
        if not asynchronous:
            self.acknowledged.add((self._n, line[0]))

    @property
    def _gid(self) -> str:
        return f"{self._master.database} writer {self.number}"

    def _finish_prepared(self, connection: psycopg.Connection[Any]) -> None:
        connection.autocommit = True
        if connection.execute("SELECT FROM pg_prepared_xacts WHERE gid = %s", [self._gid]).fetchone() is not None:
            connection.execute(f"COMMIT PREPARED '{self._gid}'")
        connection.autocommit = False
        self._unfinished = False

    def _in_vain(self, work: Work, operation: operations.Operation) -> None:
        """An operation within a savepoint that is rolled back."""
        before, changes, events = dict(work.deltas), work.changes, list(work.events)
        with work.connection.transaction(force_rollback=True):
            operation(work, self.chance)
        work.deltas, work.changes, work.events = before, changes, events
