"""Watches a server while a script runs on it: which locks of tables its sessions hold, and since when one is idle."""

import contextlib
import threading
import time
from dataclasses import dataclass

import psycopg

from devstack.postgres import PostgresServer
from devstack.rehearse.psql import APPLICATION

SAMPLE_SECONDS = 0.02
BLOCKING = ("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")
"""The locks that make writers of a table wait; the last one its readers, too."""

_HELD = """
SELECT n.nspname || '.' || c.relname, l.mode
  FROM pg_catalog.pg_locks l
  JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
  JOIN pg_catalog.pg_class c ON c.oid = l.relation
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE l.locktype = 'relation' AND l.granted AND l.mode = ANY (%s)
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
   AND a.application_name NOT LIKE 'sluice%%' AND a.pid <> pg_catalog.pg_backend_pid()
   AND c.relkind IN ('r', 'p', 'm') AND n.nspname <> ALL (%s)
"""
_OPEN = """
SELECT pg_catalog.count(*) FILTER (WHERE xact_start IS NOT NULL),
       coalesce(pg_catalog.min(EXTRACT(epoch FROM pg_catalog.clock_timestamp() - state_change))
                FILTER (WHERE state LIKE 'idle%%'), 0)
  FROM pg_catalog.pg_stat_activity WHERE application_name = %s AND datname = current_database()
"""


@dataclass
class Held:
    """A lock that makes others wait, held on one table."""

    table: str
    mode: str
    began: float
    """Seconds since the script's first statement."""
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Watch(threading.Thread):
    """Samples from `start` to `stop`. `ignored`: schemas that are not of the application."""

    def __init__(self, server: PostgresServer, database: str, ignored: tuple[str, ...]):
        super().__init__(name=f"watch {server.name}", daemon=True)
        self._server, self._database = server, database
        self._ignored = [*ignored, "pg_catalog", "information_schema", "pg_toast"]
        self._ended = threading.Event()
        self.begun = time.monotonic()
        self.held: list[Held] = []
        self._current: dict[tuple[str, str], Held] = {}
        self._asking = self._connected()
        self._lock = threading.Lock()

    def _connected(self) -> "psycopg.Connection[tuple[object, ...]]":
        connection = self._server.connect(self._database)
        connection.execute("SET application_name = 'sluice watch'")
        return connection

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                with self._connected() as connection:
                    while not self._ended.wait(SAMPLE_SECONDS):
                        self._sample(connection)
            except psycopg.Error:  # a script may end every session
                self._ended.wait(0.2)

    def _sample(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        rows = connection.execute(_HELD, [list(BLOCKING), self._ignored]).fetchall()
        now = self.clock()
        seen = {(str(table), str(mode)) for table, mode in rows}
        with self._lock:
            for key in seen:
                if key not in self._current:
                    self._current[key] = held = Held(*key, began=now, ended=now)
                    self.held.append(held)
                self._current[key].ended = now
            for key in self._current.keys() - seen:
                del self._current[key]

    def clock(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun

    def held_between(self, began: float, ended: float) -> list[Held]:
        """The locks that were taken between two times of `clock`, the strongest of each table."""
        with self._lock:
            taken = [held for held in self.held if began <= held.began <= ended]
        strongest: dict[str, Held] = {}
        for held in sorted(taken, key=lambda held: BLOCKING.index(held.mode)):
            strongest[held.table] = held
        return sorted(strongest.values(), key=lambda held: held.began)

    def in_transaction(self) -> bool:
        """Whether a session of the script has a transaction open."""
        return bool(self._ask()[0])

    def idle(self) -> float:
        """For how many seconds every session of the script has been idle; 0 if one works."""
        return self._ask()[1]

    def _ask(self) -> tuple[int, float]:
        try:
            row = self._asking.execute(_OPEN, [APPLICATION]).fetchone()
        except psycopg.Error:
            self._asking.close()
            with contextlib.suppress(psycopg.Error):
                self._asking = self._connected()
            return 0, 0.0
        assert row is not None
        return int(str(row[0])), float(str(row[1]))

    def stop(self) -> None:
        self._ended.set()
        if self.is_alive():
            self.join()
        self._asking.close()
