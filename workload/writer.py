"""The writer: a thread with one connection to the master, and transactions that its seed decides.

Its transactions take rows of several tables, keep and undo savepoints, roll back, commit late, are prepared and
committed in two phases. It outlives restarts of the master.
"""

import threading
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg

from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import connect
from workload.odd_operations import ODD
from workload.operations import SMALL, Operation, Work, define, label, part, pour, truncate, visit

EXPECTED = ("08", "57P", "40", "55P03", "57014", "23505", "23503", "23001", "42701")
"""SQLSTATEs that concurrent traffic and restarts bring about: the transaction is rolled back, the traffic goes on."""
RECONNECT = 0.05
"""Seconds between two tries to reach the master."""


@dataclass(frozen=True)
class Character:
    """What a writer is like. `pause`: seconds between transactions; `dream`: seconds before a commit."""

    name: str
    operations: tuple[Operation, ...]
    count: tuple[int, int]
    pause: tuple[float, float]
    dream: tuple[float, float] = (0.0, 0.0)


CLERK = Character("clerk", SMALL, (1, 6), (0.0, 0.03))
DREAMER = Character("dreamer", SMALL, (1, 4), (0.0, 0.5), (0.2, 3.0))
PORTER = Character("porter", (pour,), (1, 2), (0.4, 1.5))
BUILDER = Character("builder", (truncate, define), (1, 1), (0.5, 2.0))
CHANGER = Character("changer", (part, label), (1, 1), (0.3, 1.5))
EVERYBODY = (*(operation for operation in SMALL if operation is not visit), *ODD)
SHOP = (
    Character("quick", EVERYBODY, (1, 6), (0.0, 0.0)),
    Character("quick", EVERYBODY, (1, 6), (0.0, 0.0)),
    Character("slow", EVERYBODY, (1, 4), (0.0, 0.5), (0.5, 5.0)),
    Character("slow", EVERYBODY, (1, 4), (0.0, 0.5), (0.5, 5.0)),
    Character("shapes", (truncate, truncate, define), (1, 1), (2.0, 6.0)),
)
"""Who writes on the master of the demo."""


class Pace:
    """Holds all writers together to a rate of row changes a second."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._lock = threading.Lock()
        self._next = time.monotonic()

    def delay(self, changes: int) -> float:
        """Seconds to wait after so many changes. A pause (an outage, a lock) is not made up for afterwards."""
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next, now - 0.5) + changes / self.rate
            return max(0.0, self._next - now)


@dataclass
class Tally:
    """What a writer did."""

    committed: int = 0
    changes: int = 0
    rolled_back: int = 0
    lost_connections: int = 0
    unexpected: list[str] = field(default_factory=list)
    """Errors that no traffic may meet; each text once."""


class Writer(threading.Thread):
    """Writes until stopped, through crashes of the master."""

    def __init__(
        self,
        master: ConnectionInfo,
        number: int,
        character: Character,
        seed: int,
        pace: Pace | None = None,
        portable: bool = False,
    ):
        """`portable`: writes no value that only PostgreSQL has."""
        super().__init__(name=f"{character.name} {number}", daemon=True)
        self.number = number
        self.character = character
        self.chance = Random(f"{seed} writer {number}")
        self.tally = Tally()
        self.failure: BaseException | None = None
        self._master = master
        self._pace = pace
        self._portable = portable
        self._enough = threading.Event()
        self._unfinished = False
        """A prepared transaction may wait on the master to be committed."""
        self._two_phase = False

    def stop(self) -> None:
        """Ends it after the transaction at hand."""
        self._enough.set()

    def run(self) -> None:
        connected = False
        try:
            while not self._enough.is_set() or self._unfinished:
                try:
                    with connect(self._master, application=f"writer {self.number}") as connection:
                        connected = True
                        self._write(connection)
                except (SluiceError, psycopg.OperationalError):  # the master is down
                    self.tally.lost_connections += connected
                    connected = False
                    self._enough.wait(RECONNECT)
                except psycopg.InternalError as error:
                    if error.diag.severity_nonlocalized != "PANIC":
                        raise
        except BaseException as failure:
            self.failure = failure

    # -- what a writer of another kind does besides

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        """A connection was made, and what was prepared is committed."""

    def work(self, connection: psycopg.Connection[Any]) -> Work:
        """A transaction begins."""
        work = Work(connection, self.number, self._portable)
        # Also opens the transaction: what follows in `connection.transaction()` is a savepoint.
        work.run("SELECT 1")
        return work

    def sign(self, work: Work, done: list[str]) -> None:
        """All operations are done, and the transaction is to be committed."""

    def confirmed(self, work: Work) -> None:
        """It is committed."""

    # -- transactions

    def _write(self, connection: psycopg.Connection[Any]) -> None:
        self._two_phase = connection.execute("SHOW max_prepared_transactions").fetchone() != ("0",)
        connection.commit()
        self._finish_prepared(connection)
        self.begin(connection)
        connection.execute("SET lock_timeout = '400ms'")
        connection.commit()
        while not self._enough.is_set():
            changes = 0
            try:
                changes = self._transaction(connection)
            except psycopg.Error as error:
                if connection.closed or connection.broken or error.sqlstate is None:
                    raise
                if self._unfinished:
                    connection.close()  # the next connection ends it first
                    return
                connection.rollback()  # a deadlock, a lock that came too late, a key somebody else took
                self.tally.rolled_back += 1
                self._note(error)
            delay = self._pace.delay(changes) if self._pace else 0.0
            self._enough.wait(max(delay, self.chance.uniform(*self.character.pause)))

    def _transaction(self, connection: psycopg.Connection[Any]) -> int:
        """How many rows were changed, and kept or not."""
        chance, work = self.chance, self.work(connection)
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
            self.tally.rolled_back += 1
            return work.changes
        self.sign(work, done)
        if chance.random() < 0.04 and self._two_phase:
            # From here on the master keeps it, through crashes too: this writer must end it, now or after them.
            self._unfinished = True
            connection.execute(f"PREPARE TRANSACTION '{self._gid}'")
            self._enough.wait(chance.uniform(*self.character.dream))
            self._finish_prepared(connection)
        else:
            self._enough.wait(chance.uniform(*self.character.dream))
            connection.commit()
        self.tally.committed += 1
        self.tally.changes += work.changes
        self.confirmed(work)
        return work.changes

    @property
    def _gid(self) -> str:
        return f"{self._master.database} writer {self.number}"

    def _finish_prepared(self, connection: psycopg.Connection[Any]) -> None:
        connection.autocommit = True
        if connection.execute("SELECT FROM pg_prepared_xacts WHERE gid = %s", [self._gid]).fetchone() is not None:
            connection.execute(f"COMMIT PREPARED '{self._gid}'")
        connection.autocommit = False
        self._unfinished = False

    def _in_vain(self, work: Work, operation: Operation) -> None:
        """An operation within a savepoint that is rolled back."""
        before = work.state()
        with work.connection.transaction(force_rollback=True):
            operation(work, self.chance)
        work.restore(before)

    def _note(self, error: psycopg.Error) -> None:
        text = f"{error.sqlstate}: {' '.join(str(error).split())[:400]}"
        if not str(error.sqlstate).startswith(EXPECTED) and text not in self.tally.unexpected[:20]:
            self.tally.unexpected.append(text)
