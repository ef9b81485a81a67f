"""A session of the writer: one connection to the master that is made again whenever it is lost."""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import psycopg
from psycopg import sql

from devstack.demo.accounts import APPLICATION
from sluice.model.connection import ConnectionInfo

EXPECTED = ("08", "57P", "40", "55P03", "57014", "23505", "23503", "23001", "42701")
"""SQLSTATEs that concurrent traffic and restarts bring about: the transaction is rolled back, the traffic goes on."""


class Tally:
    """What all sessions did, counted; safe to share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._unexpected: list[str] = []

    def add(self, **counts: int) -> None:
        with self._lock:
            self._counts.update(counts)

    def unexpected(self, message: str) -> None:
        """Note an error no traffic of this kind may meet; each text once."""
        with self._lock:
            if message not in self._unexpected and len(self._unexpected) < 20:
                self._unexpected.append(message)

    def report(self) -> dict[str, Any]:
        """committed, rolled_back, unknown, changes, reconnects: counts; unexpected: texts."""
        with self._lock:
            return {**self._counts, "unexpected": list(self._unexpected)}


class Pace:
    """Holds all sessions together to a rate of row changes a second."""

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


class Session:
    """Statements of one thread. They open and close transactions themselves, the connection is in autocommit mode."""

    def __init__(self, info: ConnectionInfo, number: int, seed: int, tally: Tally, stop: threading.Event) -> None:
        self.info, self.number, self.tally, self.stop = info, number, tally, stop
        self.random = Random(f"{seed} session {number}")
        self.zoo_columns: list[str] = []
        self.two_phase = False
        self._connection: psycopg.Connection[Any] | None = None
        self._prepared = 0

    def execute(self, query: str | sql.SQL | sql.Composed, parameters: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Raises psycopg's errors."""
        return self.connection.execute(query, parameters or None)

    def one(self, query: str | sql.SQL | sql.Composed, parameters: Sequence[Any] = ()) -> Any:
        """The first column of the first row, None when there is no row."""
        row = self.execute(query, parameters).fetchone()
        return row[0] if row else None

    def changed(self, query: str | sql.SQL | sql.Composed, parameters: Sequence[Any] = ()) -> int:
        """Execute and return how many rows it changed."""
        return max(0, self.execute(query, parameters).rowcount)

    @property
    def connection(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
            self._connection.execute("SET lock_timeout = '3s'")
            self.two_phase = int(self._one_setting("max_prepared_transactions")) > 0
            self._end_prepared()
        return self._connection

    def lost(self) -> bool:
        """Whether there is no connection any more."""
        return self._connection is None or self._connection.closed

    def forget(self) -> bool:
        """Give up a lost connection; False when there was none to lose, because the master does not answer yet."""
        had, self._connection = self._connection is not None, None
        return had

    def close(self) -> None:
        """End what is prepared and disconnect; an unreachable master is left alone."""
        try:
            if self._connection is not None and not self._connection.closed:
                self._end_prepared()
        except psycopg.Error:
            pass
        finally:
            if self._connection is not None:
                self._connection.close()

    def prepared_name(self) -> str:
        """A name for the next two-phase transaction of this session."""
        self._prepared += 1
        return f"demo writer {self.number} {self._prepared}"

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host=self.info.host, port=self.info.port, dbname=self.info.database,
            user=self.info.user, password=self.info.password,
            application_name=f"{APPLICATION} writer {self.number}", autocommit=True, connect_timeout=5,
        )  # fmt: skip

    def _one_setting(self, name: str) -> str:
        assert self._connection is not None
        row = self._connection.execute(f"SHOW {name}").fetchone()
        assert row is not None
        return str(row[0])

    def _end_prepared(self) -> None:
        """Commit what this session prepared and then lost sight of: a prepared transaction survives any crash."""
        assert self._connection is not None
        names = self._connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE %s",
            [f"demo writer {self.number} %"],
        ).fetchall()
        for (name,) in names:
            self._connection.execute(f"COMMIT PREPARED '{name}'")
