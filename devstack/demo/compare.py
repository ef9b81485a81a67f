"""Compares master and slave row for row.

The canonical text of a row is the text of all its columns, under settings that make it the same on every server. A
table's digest is the sum, over all rows, of two 64-bit numbers from the SHA-256 of that text. It does not depend on the
order of rows, and counts equal rows. Each server computes its own, and only the sums are sent. If digests differ, both
sides are read in key order and the first differing rows are shown. Memory holds a few rows only.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from devstack.demo.accounts import APPLICATION, DATABASE, PREFIX, SCHEMA
from devstack.postgres import PostgresServer
from sluice.errors import Transient
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.shape import TableShape
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect, quoted
from sluice.vendors.stream.session import StreamSession
from sluice.vendors.stream.source import StreamQueue

# Counts the changes that the master has captured, over time.

INTERVAL = 0.5
INSERTED = "SELECT pg_stat_get_tuples_inserted(%s::regclass)"
ITEMS = quoted(SCHEMA, PREFIX.lower() + "items")
"""All captured changes, those of rolled-back transactions included."""


class Counted(threading.Thread):
    """Samples a count of changes until stopped."""

    def __init__(self) -> None:
        super().__init__(name="captured", daemon=True)
        self._stopping = threading.Event()
        self._samples: list[tuple[float, int]] = []

    def stop(self) -> None:
        self._stopping.set()

    @property
    def any(self) -> bool:
        """Whether capture has begun."""
        return bool(self._samples)

    def rate(self, began: float, ended: float) -> float:
        """Returns the changes a second between two times of `time.monotonic`."""
        samples = [sample for sample in list(self._samples) if began <= sample[0] <= ended]
        if len(samples) < 2:
            return 0.0
        return (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0])


class Captured(Counted):
    """Those in ITEMS. It reconnects after restarts of the master."""

    def __init__(self, master: PostgresServer) -> None:
        super().__init__()
        self._master = master

    def run(self) -> None:
        while not self._stopping.wait(INTERVAL):
            try:
                with self._master.connect(DATABASE) as connection:
                    while not self._stopping.wait(INTERVAL):
                        row = connection.execute(INSERTED, [ITEMS]).fetchone()
                        self._samples.append((time.monotonic(), int(row[0]) if row else 0))
            except psycopg.Error:  # not installed yet, or the master restarts
                continue


class Recorded(Counted):
    """Those in a recorded stream."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def run(self) -> None:
        while not self._stopping.wait(INTERVAL):
            with suppress(Transient):  # no file yet
                end = StreamQueue(StreamSession(self._folder), Prefix(PREFIX), "").take()
                self._samples.append((time.monotonic(), end.commit))


SHOWN = 5
"""The number of differing rows that are shown for a table."""
SETTINGS = {"work_mem": "64MB"}


@dataclass(frozen=True)
class Side:
    """Row count and digest of a table on one server."""

    rows: int
    digest: str
    """In hexadecimal digits."""


@dataclass(frozen=True)
class Difference:
    """A row that differs or that only one side has. A side without a row of that key has the text None."""

    key: str
    master: str | None
    slave: str | None


@dataclass(frozen=True)
class Verdict:
    """The result of comparing one table."""

    table: TableName
    master: Side | None
    slave: Side | None
    problem: str = ""
    """Why the rows could not be compared: a table is missing, or the columns differ."""
    differences: tuple[Difference, ...] = field(default=())

    @property
    def equal(self) -> bool:
        return not self.problem and self.master is not None and self.master == self.slave


def tables(master: psycopg.Connection[Any], owner: str) -> list[TableName]:
    """Returns the tables of the role `owner`, without partitions. The replication's tables have another owner."""
    rows = master.execute(
        "SELECT nspname::text, relname::text FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " WHERE relkind IN ('r', 'p') AND NOT relispartition AND relowner = %s::regrole ORDER BY 1, 2",
        [owner],
    ).fetchall()
    return [TableName(schema, name) for schema, name in rows]


def compare(master: ConnectionInfo, slave: ConnectionInfo, wanted: list[TableName]) -> Iterator[Verdict]:
    """Yields a verdict for each table, in order. Neither side may change meanwhile. Raises Sluice's errors."""
    application = f"{APPLICATION} comparison"
    with (
        connect(master, application=application, autocommit=True, settings=SETTINGS) as left,
        connect(slave, application=application, autocommit=True, settings=SETTINGS) as right,
        ThreadPoolExecutor(2) as pool,
    ):
        shapes, others = catalog.shapes(left, wanted), catalog.shapes(right, wanted)
        for table in wanted:
            if problem := _problem(shapes.get(table), others.get(table)):
                sides = [
                    _side(connection, by_table[table]) if table in by_table else None
                    for connection, by_table in ((left, shapes), (right, others))
                ]
                yield Verdict(table, sides[0], sides[1], problem)
                continue
            shape = shapes[table]
            master_side, slave_side = pool.map(_side, (left, right), (shape, shape))
            differences = () if master_side == slave_side else tuple(_differences(left, right, shape))
            yield Verdict(table, master_side, slave_side, "", differences)


def _problem(master: TableShape | None, slave: TableShape | None) -> str:
    if master is None or slave is None:
        return f"missing on the {'master' if master is None else 'slave'}"
    on_master = {column.name: column.type for column in master.columns}
    on_slave = {column.name: column.type for column in slave.columns}
    lacking = [name for name in on_master if name not in on_slave]
    extra = [name for name in on_slave if name not in on_master]
    retyped = [name for name in on_master if name in on_slave and on_master[name] != on_slave[name]]
    parts = (("lacks", lacking), ("has besides", extra), ("has other types of", retyped))
    return "; ".join(f"the slave {verb} {', '.join(names)}" for verb, names in parts if names)


def _name(shape: TableShape) -> str:
    return quoted(shape.table.schema, shape.table.name)


def _row(shape: TableShape) -> str:
    """Returns SQL for the canonical text of a row. Generated columns are included."""
    return _texts(column.name for column in shape.columns)


def _texts(columns: Iterable[str]) -> str:
    """Returns SQL for a record of texts, in which NULL differs from the empty text."""
    return "ROW(" + ", ".join(f"t.{quoted(column)}::text" for column in columns) + ")::text"


def _side(connection: psycopg.Connection[Any], shape: TableShape) -> Side:
    halves = ", ".join(
        # Only PostgreSQL 18 and later cast bytea to a number.
        f"coalesce(sum(('x' || substr(h, {start}, 16))::bit(64)::bigint), 0)"
        for start in (1, 17)
    )
    # OFFSET 0 keeps the planner from computing each hash twice.
    digest = f"encode(sha256(convert_to({_row(shape)}, 'UTF8')), 'hex')"
    row = connection.execute(
        f"SELECT count(*), {halves} FROM (SELECT {digest} AS h FROM {_name(shape)} AS t OFFSET 0) AS s"
    ).fetchone()
    assert row is not None
    rows, first, second = row
    return Side(int(rows), f"{int(first) % 2**64:016x}{int(second) % 2**64:016x}")


def _differences(
    master: psycopg.Connection[Any], slave: psycopg.Connection[Any], shape: TableShape
) -> Iterator[Difference]:
    """Yields the first differing rows in the order of the key, or of the whole row in a table without a key."""
    shown = 0
    for key, on_master, on_slave in _merged(_stream(master, shape), _stream(slave, shape)):
        if on_master != on_slave:
            yield Difference(key, on_master, on_slave)
            shown += 1
            if shown == SHOWN:
                return


def _stream(connection: psycopg.Connection[Any], shape: TableShape) -> Iterator[tuple[str, str]]:
    """Yields (key, text) of each row in the order of the key's bytes. Equal rows of a keyless table appear as a
    count."""
    row, table = _row(shape), _name(shape)
    if shape.keyless:
        rows = f'SELECT {row} COLLATE "C" AS k FROM {table} AS t'
        query = f"SELECT k, count(*) || ' times' FROM ({rows}) AS s GROUP BY k ORDER BY k"
    else:
        key = _texts(column.name for column in shape.key)
        rows = f'SELECT {key} COLLATE "C" AS k, {row} COLLATE "C" AS r FROM {table} AS t'
        query = f"SELECT k, r FROM ({rows}) AS s ORDER BY k, r"
    with connection.transaction(), connection.cursor(name="comparison") as cursor:
        cursor.itersize = 500
        cursor.execute(query)
        yield from cursor


def _merged(
    left: Iterator[tuple[str, str]], right: Iterator[tuple[str, str]]
) -> Iterator[tuple[str, str | None, str | None]]:
    """Merges two ascending streams into (key, text on the left, text on the right)."""
    left_row, right_row = next(left, None), next(right, None)
    while left_row is not None or right_row is not None:
        if right_row is None or (left_row is not None and left_row[0].encode() < right_row[0].encode()):
            assert left_row is not None
            yield left_row[0], left_row[1], None
            left_row = next(left, None)
        elif left_row is None or right_row[0].encode() < left_row[0].encode():
            yield right_row[0], None, right_row[1]
            right_row = next(right, None)
        else:
            yield left_row[0], left_row[1], right_row[1]
            left_row, right_row = next(left, None), next(right, None)
