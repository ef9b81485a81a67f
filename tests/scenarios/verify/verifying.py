"""A verification of a rig, and traffic on its master."""

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from typing import Any

import psycopg

from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import connect
from sluice.verify.compare import compare
from sluice.verify.findings import Kind, TableFinding
from sluice.verify.pinned_sessions import at_one_position
from tests.rig.rig import Rig


def look(rig: Rig, table: str, actions: str = "IUD", sample: int = 0, **options: Any) -> TableFinding:
    """Compares one table, at its own position."""
    with at_one_position(rig.pair, redis_store.connect(rig.redis_url), **options) as view:
        return compare(view, TableName("public", table), frozenset(actions), sample)


def look_at_all(rig: Rig, tables: Iterable[str]) -> dict[str, TableFinding]:
    """Compares several tables at one position."""
    with at_one_position(rig.pair, redis_store.connect(rig.redis_url)) as view:
        return {table: compare(view, TableName("public", table)) for table in tables}


def counts(finding: TableFinding) -> dict[str, int]:
    """The number of different rows, by kind."""
    return {str(kind): finding.found[kind].count for kind in Kind if finding.found[kind].count}


def by_hand(rig: Rig, statement: str) -> None:
    """Changes the slave as a person does beside its apply; repeats a statement that loses a deadlock."""
    while True:
        with suppress(psycopg.errors.DeadlockDetected):
            rig.slave.execute(statement.encode())
            return


class Traffic(AbstractContextManager["Traffic"]):
    """Writes on the master until it is left; `written` counts rows. Statements take `{n}`, their own number.

    `pause`: seconds between two turns of a writer.
    """

    def __init__(self, rig: Rig, statements: str, rows: int, writers: int = 2, pause: float = 0.0):
        self.rig, self.statements, self.rows, self.pause = rig, statements, rows, pause
        self.written = 0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(writers)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def _write(self, number: int) -> None:
        turn = 0
        try:
            with connect(self.rig.pair.master_info, application="traffic", autocommit=True) as connection:
                while not self._over.wait(self.pause):
                    turn += 1
                    connection.execute(self.statements.format(writer=number, turn=turn).encode())
                    with self._lock:
                        self.written += self.rows
        except BaseException as error:
            self._failure = error
