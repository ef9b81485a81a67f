"""Reads a slave's state, the progress of its load and its applied changes several times a second.

It reads the slave's own tables (CHECKPOINT, BLOCKS), and from Redis the reasons why the gate is closed. An observer
keeps its last observation and reconnects after restarts of the slave and of Redis.
"""

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace

import redis

from devstack.demo.accounts import PREFIX, connect, control_table, table
from sluice.coordination.gate import Gate
from sluice.database import registry
from sluice.database.errors import DatabaseError, UndefinedTable
from sluice.database.session import Session
from sluice.errors import SluiceError
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.position import Position

INTERVAL = 0.25

CHECKPOINT = "SELECT state, message, position, changes, target IS NOT NULL FROM {checkpoint} WHERE slave = %s"
BLOCKS = """
    SELECT "schema", tablename, count(*), sum(CASE state WHEN 'stored' THEN 1 ELSE 0 END), coalesce(sum("rows"), 0),
           sum(CASE state WHEN 'planned' THEN 0 ELSE 1 END)
    FROM {blocks} WHERE slave = %s GROUP BY "schema", tablename ORDER BY 5 DESC, 1, 2
"""
LOADED = """
    SELECT coalesce(sum("rows"), 0), min(begun_at), max(stored_at) FROM {blocks} WHERE slave = %s AND state = 'stored'
"""
BALANCES = """
    SELECT (SELECT state = 'NORMAL' AND target IS NULL FROM {checkpoint} WHERE slave = %s),
           (SELECT sum(tbalance) FROM {tellers}), (SELECT sum(bbalance) FROM {branches})
"""
"""Both sums are equal in every state of the master. One statement reads them in one snapshot."""


@dataclass(frozen=True)
class TableProgress:
    """The load of one table."""

    name: str
    blocks: int
    stored: int
    rows: int
    begun: int = 0
    """Blocks whose reading has begun."""


@dataclass(frozen=True)
class Observation:
    """A slave at one moment."""

    state: str = "UNCONFIGURED"
    message: str = ""
    position: Position | None = None
    changes: int = 0
    catching_up: bool = False
    tables: tuple[TableProgress, ...] = ()
    closures: tuple[str, ...] = ()
    reachable: bool = False

    @property
    def blocks(self) -> int:
        return sum(table.blocks for table in self.tables)

    @property
    def stored(self) -> int:
        return sum(table.stored for table in self.tables)

    @property
    def begun(self) -> int:
        return sum(table.begun for table in self.tables)

    @property
    def rows(self) -> int:
        """Loaded rows."""
        return sum(table.rows for table in self.tables)


@dataclass
class Consistency:
    """How often a reader looked at the NORMAL slave, and the half transactions that it saw."""

    looks: int = 0
    half_transactions: list[str] = field(default_factory=list)


class Observer(threading.Thread):
    """Observes one slave until stopped. `latest` is the last observation."""

    def __init__(self, name: str, slave: ConnectionInfo, redis_url: str) -> None:
        super().__init__(name=f"observer of {name}", daemon=True)
        self.slave_name = name
        self.latest = Observation()
        self.consistency = Consistency()
        self._slave = slave
        self._redis = redis.Redis.from_url(redis_url, decode_responses=True, socket_timeout=1, socket_connect_timeout=1)
        self._stopping = threading.Event()
        self._history: deque[tuple[float, int, int]] = deque(maxlen=200_000)

    def run(self) -> None:
        connection: Session | None = None
        turns = 0
        while not self._stopping.wait(INTERVAL):
            closures = self._closures() if turns % 4 == 0 else self.latest.closures
            try:
                if connection is None or connection.closed:
                    connection = connect(self._slave, "observer")
                self.latest = replace(self._look(connection), closures=closures)
                self._history.append((time.monotonic(), self.latest.changes, self.latest.rows))
                if turns % 2 == 0 and self.latest.state == "NORMAL":
                    self._check_balances(connection)
            except UndefinedTable:
                self.latest = Observation(reachable=True, closures=closures)
            except DatabaseError:
                self.latest = replace(self.latest, reachable=False, closures=closures)
                if connection is not None:
                    connection.close()
            turns += 1
        if connection is not None:
            connection.close()

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(10)

    def rates(self, seconds: float = 5.0) -> tuple[float, float]:
        """Returns (changes, loaded rows) a second over the last seconds."""
        now = time.monotonic()
        recent = [entry for entry in list(self._history)[-int(seconds / INTERVAL) - 1 :] if entry[0] >= now - seconds]
        if len(recent) < 2:
            return 0.0, 0.0
        span = recent[-1][0] - recent[0][0]
        return max(0.0, (recent[-1][1] - recent[0][1]) / span), max(0.0, (recent[-1][2] - recent[0][2]) / span)

    def applied_rate(self, began: float, ended: float) -> float:
        """Returns the changes a second between two times of `time.monotonic`."""
        within = [entry for entry in list(self._history) if began <= entry[0] <= ended]
        if len(within) < 2:
            return 0.0
        return (within[-1][1] - within[0][1]) / (within[-1][0] - within[0][0])

    def load_figures(self) -> tuple[int, float]:
        """Returns the loaded rows, and the seconds from the first block's begin to the last block's end.

        Raises Sluice's errors.
        """
        with connect(self._slave, "figures") as connection:
            row = connection.execute(self._statement(LOADED), [self.slave_name]).fetchone()
        rows, begun, stored = row or (0, None, None)
        return int(rows), (stored - begun).total_seconds() if stored else 0.0

    def _statement(self, text: str) -> bytes:
        """Returns the statement with the names of this slave's tables."""
        own = {name: control_table(self._slave, name) for name in ("checkpoint", "blocks")}
        others = {name: table(self._slave, f"pgbench_{name}") for name in ("tellers", "branches")}
        return text.format(**own, **others).encode()

    def _look(self, connection: Session) -> Observation:
        row = connection.execute(self._statement(CHECKPOINT), [self.slave_name]).fetchone()
        if row is None:
            return Observation(reachable=True)
        state, message, position, changes, catching_up = row
        tables = self.latest.tables
        if state != "NORMAL" or not tables:
            blocks = connection.execute(self._statement(BLOCKS), [self.slave_name]).fetchall()
            tables = tuple(TableProgress(f"{schema}.{name}", *map(int, counts)) for schema, name, *counts in blocks)
        seen = registry.parse_position(position) if position else None
        return Observation(state, message or "", seen, int(changes), bool(catching_up), tables, (), True)

    def _check_balances(self, connection: Session) -> None:
        row = connection.execute(self._statement(BALANCES), [self.slave_name]).fetchone()
        consistent, tellers, branches = row or (False, 0, 0)
        if consistent:
            self.consistency.looks += 1
            if tellers != branches:
                self.consistency.half_transactions.append(f"tellers {tellers}, branches {branches}")

    def _closures(self) -> tuple[str, ...]:
        with contextlib.suppress(SluiceError, redis.RedisError):
            return tuple(str(closure) for closure in Gate(self._redis, Prefix(PREFIX), self.slave_name).closures())
        return self.latest.closures
