"""The writer: a thread with one connection to the master, and random transactions that a seed determines.

Its transactions change rows of several tables, release and roll back savepoints, roll back, commit late, and commit in
two phases. It reconnects after restarts of the master.
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
"""SQLSTATEs of concurrent traffic and restarts. The transaction is rolled back, and the traffic continues."""
RECONNECT = 0.05
"""Seconds between two attempts to connect."""


@dataclass(frozen=True)
class Profile:
    """What a writer does. `count`: operations of a transaction; `pause`: seconds between transactions; `commit_delay`:
    seconds before a commit. Each is a range.
    """

    name: str
    operations: tuple[Operation, ...]
    count: tuple[int, int]
    pause: tuple[float, float]
    commit_delay: tuple[float, float] = (0.0, 0.0)


SHORT = Profile("short", SMALL, (1, 6), (0.0, 0.03))
SLOW = Profile("slow", SMALL, (1, 4), (0.0, 0.5), (0.2, 3.0))
BULK = Profile("bulk", (pour,), (1, 2), (0.4, 1.5))
TABLE_DDL = Profile("table DDL", (truncate, define), (1, 1), (0.5, 2.0))
PARTITION_DDL = Profile("partition DDL", (part, label), (1, 1), (0.3, 1.5))
ALL_OPERATIONS = (*(operation for operation in SMALL if operation is not visit), *ODD)
DEMO = (
    Profile("quick", ALL_OPERATIONS, (1, 6), (0.0, 0.0)),
    Profile("quick", ALL_OPERATIONS, (1, 6), (0.0, 0.0)),
    Profile("slow", ALL_OPERATIONS, (1, 4), (0.0, 0.5), (0.5, 5.0)),
    Profile("slow", ALL_OPERATIONS, (1, 4), (0.0, 0.5), (0.5, 5.0)),
    Profile("shapes", (truncate, truncate, define), (1, 1), (2.0, 6.0)),
)
"""The writers of the demo."""


class Pace:
    """Limits all writers together to a rate of row changes a second."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._lock = threading.Lock()
        self._next = time.monotonic()

    def delay(self, changes: int) -> float:
        """Returns the seconds to wait after that many changes. Writers do not make up for a pause (an outage, a
        lock)."""
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next, now - 0.5) + changes / self.rate
            return max(0.0, self._next - now)


@dataclass
class Tally:
    """Counts of a writer."""

    committed: int = 0
    changes: int = 0
    rolled_back: int = 0
    lost_connections: int = 0
    unexpected: list[str] = field(default_factory=list)
    """Errors that a healthy master does not raise; each text once."""


class Writer(threading.Thread):
    """Writes until stopped, through crashes of the master."""

    def __init__(
        self,
        master: ConnectionInfo,
        number: int,
        profile: Profile,
        seed: int,
        pace: Pace | None = None,
        portable: bool = False,
    ):
        """`portable`: without values that only PostgreSQL can store."""
        super().__init__(name=f"{profile.name} {number}", daemon=True)
        self.number = number
        self.profile = profile
        self.chance = Random(f"{seed} writer {number}")
        self.tally = Tally()
        self.failure: BaseException | None = None
        self._master = master
        self._pace = pace
        self._portable = portable
        self._enough = threading.Event()
        self._unfinished = False
        """Whether the master may have a prepared transaction of this writer."""
        self._two_phase = False

    def stop(self) -> None:
        """Ends the writer after its current transaction."""
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

    # -- hooks for subclasses

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        """Called after connecting, when a prepared transaction is committed."""

    def work(self, connection: psycopg.Connection[Any]) -> Work:
        """Begins a transaction."""
        work = Work(connection, self.number, self._portable)
        # It opens the transaction, so that `connection.transaction()` makes savepoints.
        work.run("SELECT 1")
        return work

    def sign(self, work: Work, done: list[str]) -> None:
        """Called after the last operation, before the commit."""

    def confirmed(self, work: Work) -> None:
        """Called after the commit."""

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
                    connection.close()  # the next connection ends the prepared transaction first
                    return
                connection.rollback()  # e.g. a deadlock, a lock timeout, a duplicate key
                self.tally.rolled_back += 1
                self._note(error)
            delay = self._pace.delay(changes) if self._pace else 0.0
            self._enough.wait(max(delay, self.chance.uniform(*self.profile.pause)))

    def _transaction(self, connection: psycopg.Connection[Any]) -> int:
        """Runs a transaction, and returns the number of rows that it changed, committed or not."""
        chance, work = self.chance, self.work(connection)
        done = []
        for _ in range(chance.randint(*self.profile.count)):
            operation = chance.choice(self.profile.operations)
            if chance.random() < 0.12:
                self._rolled_back(work, operation)
            elif chance.random() < 0.12:
                with connection.transaction():  # a savepoint that is released
                    operation(work, chance)
            else:
                operation(work, chance)
            done.append(operation.__name__)
        if chance.random() < 0.08:
            self._enough.wait(chance.uniform(*self.profile.commit_delay))
            connection.rollback()
            self.tally.rolled_back += 1
            return work.changes
        self.sign(work, done)
        if chance.random() < 0.04 and self._two_phase:
            # From here on the master keeps the transaction, also after a crash, and this writer must commit it.
            self._unfinished = True
            connection.execute(f"PREPARE TRANSACTION '{self._gid}'")
            self._enough.wait(chance.uniform(*self.profile.commit_delay))
            self._finish_prepared(connection)
        else:
            self._enough.wait(chance.uniform(*self.profile.commit_delay))
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

    def _rolled_back(self, work: Work, operation: Operation) -> None:
        """Runs an operation within a savepoint that is rolled back."""
        before = work.state()
        with work.connection.transaction(force_rollback=True):
            operation(work, self.chance)
        work.restore(before)

    def _note(self, error: psycopg.Error) -> None:
        text = f"{error.sqlstate}: {' '.join(str(error).split())[:400]}"
        if not str(error.sqlstate).startswith(EXPECTED) and text not in self.tally.unexpected[:20]:
            self.tally.unexpected.append(text)
