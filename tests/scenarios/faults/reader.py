"""A reader of the slave: looks all the time, each look one snapshot of the checkpoint, the log and every table."""

import threading
from dataclasses import dataclass
from typing import Any

import psycopg

from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from workload.tables import EVERY, IMBALANCE

_PAUSE = 0.08
CHECKPOINT = "SELECT state, position, target IS NOT NULL FROM public.demo_checkpoint WHERE slave = 'dr1'"
PROGRESS = "SELECT writer, count(*), max(n) FROM public.log GROUP BY 1"


@dataclass(frozen=True)
class Look:
    """What the slave showed at one moment."""

    position: SnapshotPosition
    progress: dict[int, tuple[int, int]]
    """Of each writer, how many of its transactions are there, and the number of the last one."""
    imbalance: dict[str, tuple[int, int]]
    """Tables whose rows do not add up to the log, with rows and hashes too many."""


class Reader(threading.Thread):
    """Looks until stopped, through crashes of the slave. Between slices, and while it loads, its tables say nothing."""

    def __init__(self, slave: ConnectionInfo):
        super().__init__(name="reader", daemon=True)
        self.looks: list[Look] = []
        self.place: object = None
        """How far the slave was; where the checkpoint is kept in Redis, its position on the slave says little."""
        self.between_slices = 0
        self.locked = 0
        """Looks that were given up because of a lock."""
        self.failure: BaseException | None = None
        self._slave = slave
        self._enough = threading.Event()

    def stop(self) -> None:
        self._enough.set()

    def run(self) -> None:
        try:
            while not self._enough.is_set():
                try:
                    with connect(self._slave, application="reader") as connection:
                        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                        while not self._enough.wait(_PAUSE):
                            self._look(connection)
                except (SluiceError, psycopg.OperationalError):  # the slave is down
                    self._enough.wait(0.05)
        except BaseException as failure:
            self.failure = failure

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
                connection.execute(f"LOCK TABLE {EVERY} IN ACCESS SHARE MODE")
                row = connection.execute(CHECKPOINT).fetchone()
                assert row is not None
                state, position, slices = row
                if state != "NORMAL" or slices:
                    self.between_slices += 1
                    return
                progress = {writer: (count, last) for writer, count, last in connection.execute(PROGRESS).fetchall()}
                off = {
                    name: (rows, int(total))
                    for name, rows, total in connection.execute(IMBALANCE).fetchall()
                    if rows or total
                }
        except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):  # or dropped, to be loaded anew
            self.locked += 1
            return
        self.place = position, progress
        self.looks.append(Look(SnapshotPosition.parse(position), progress, off))
