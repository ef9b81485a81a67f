"""A reader of the slave: looks all the time, each look one snapshot of the checkpoint, the log and every table.

It locks nothing beforehand, as no application does.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from sluice.database.errors import Contended
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.vendors.mysql.connection import MySQLSession
from sluice.vendors.mysql.connection import connect as connect_mariadb
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from workload.tables import BY_NAME, IMBALANCE, IMBALANCE_ON_MARIADB, PARTITIONS

_PAUSE = 0.08
CHECKPOINT = "SELECT state, position, target IS NOT NULL FROM public.demo_checkpoint WHERE slave = 'dr1'"
PROGRESS = "SELECT writer, count(*), max(n) FROM public.log GROUP BY 1"
FILES = f"""
SELECT oid, relfilenode, relnatts FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relname IN {(*BY_NAME, *PARTITIONS, "log")} ORDER BY 1
"""
"""A TRUNCATE, and what writes a table again, give it another file, and an older snapshot finds it empty."""
CHECKPOINT_ON_MARIADB, PROGRESS_ON_MARIADB = (query.replace("public.", "") for query in (CHECKPOINT, PROGRESS))
Row = Sequence[Any]


@dataclass(frozen=True)
class Look:
    """The state of the slave at one moment."""

    position: SnapshotPosition
    progress: dict[int, tuple[int, int]]
    """Of each writer, how many of its transactions are there, and the number of the last one."""
    imbalance: dict[str, tuple[int, int]]
    """Tables whose rows do not add up to the log, with rows and hashes too many."""


class Reader(threading.Thread):
    """Looks until it is stopped, through crashes of the slave. Between slices and during a load, the tables are not
    checked."""

    def __init__(self, slave: ConnectionInfo):
        super().__init__(name="reader", daemon=True)
        self.looks: list[Look] = []
        self.place: object = None
        """How far the slave was; where the checkpoint is kept in Redis, its position on the slave says little."""
        self.given_up = 0
        """Looks that met a lock, or a TRUNCATE or a definition that came while they looked."""
        self.failure: BaseException | None = None
        self.slave = slave
        self._enough = threading.Event()

    def stop(self) -> None:
        self._enough.set()

    def run(self) -> None:
        try:
            while not self._enough.is_set():
                try:
                    with self.session() as look:
                        while not self._enough.wait(_PAUSE):
                            look()
                except (SluiceError, psycopg.OperationalError):  # the slave is down
                    self._enough.wait(0.05)
        except BaseException as failure:
            self.failure = failure

    def session(self) -> AbstractContextManager[Callable[[], None]]:
        """A session on the slave, and a function that looks once."""
        raise NotImplementedError

    def seen(self, position: str, progress: Iterable[Row], imbalance: Iterable[Row]) -> None:
        """Adds a look, from what `PROGRESS` and the digests returned."""
        found = {writer: (count, last) for writer, count, last in progress}
        off = {name: (int(rows), int(total)) for name, rows, total in imbalance if rows or total}
        self.place = position, found
        self.looks.append(Look(SnapshotPosition.parse(position), found, off))


class PostgresReader(Reader):
    """The reader of a PostgreSQL."""

    @contextmanager
    def session(self) -> Iterator[Callable[[], None]]:
        with connect(self.slave, application="reader") as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            yield lambda: self._look(connection)

    def _look(self, connection: psycopg.Connection[Any]) -> None:
        try:
            with connection.transaction():
                state, position, _ = connection.execute(CHECKPOINT).fetchone() or (None, None, None)
            if state != "NORMAL":
                self.place = state, position
                return
            with connection.transaction():
                # A deadlock with the apply would be the reader's own fault, so it gives up before one is looked for.
                connection.execute("SET LOCAL lock_timeout = '100ms'")
                before = connection.execute(FILES).fetchall()
                row = connection.execute(CHECKPOINT).fetchone()
                assert row is not None
                state, position, slices = row
                if state != "NORMAL" or slices:
                    return
                progress = connection.execute(PROGRESS).fetchall()
                imbalance = connection.execute(IMBALANCE).fetchall()
            with connection.transaction():
                changed = connection.execute(FILES).fetchall() != before
        except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):  # or dropped, to be loaded again
            changed = True
        if changed:
            self.given_up += 1
            return
        self.seen(position, progress, imbalance)


class MariaDBReader(Reader):
    """The reader of a MariaDB, with another account than the apply's."""

    @contextmanager
    def session(self) -> Iterator[Callable[[], None]]:
        with connect_mariadb(self.slave, application="reader") as session:
            session.run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            session.run("SET lock_wait_timeout = 1")
            yield lambda: self._look(session)

    def _look(self, session: MySQLSession) -> None:
        try:
            session.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            row = session.run(CHECKPOINT_ON_MARIADB).fetchone()
            assert row is not None
            state, position, slices = row
            if state == "NORMAL" and not slices:
                self.seen(position, session.run(PROGRESS_ON_MARIADB), session.run(IMBALANCE_ON_MARIADB))
        except Contended:  # a definition has changed since the snapshot
            self.given_up += 1
        finally:
            session.run("ROLLBACK")
