"""An application that writes to the master, and moves to the new one when the former refuses."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import psycopg

from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import connect

PAUSE_SECONDS = 0.02
"""Of a writer after each transaction. Without it the writers take the cores from what is tested."""
REFUSED = (psycopg.errors.ReadOnlySqlTransaction,)


class Writers(AbstractContextManager["Writers"]):
    """Each transaction creates a customer with two orders. `moved`: the database to which a refused writer moves; None:
    it retries."""

    def __init__(self, info: ConnectionInfo, moved: Callable[[], ConnectionInfo | None], count: int = 3):
        self.moved = moved
        self.committed: dict[str, int] = {}
        self.refused = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._threads = [threading.Thread(target=self._write, args=(info,)) for _ in range(count)]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self._failure:
            raise self._failure

    def total(self, info: ConnectionInfo | None = None) -> int:
        """The number of committed transactions, in one database or all."""
        with self._lock:
            return sum(count for name, count in self.committed.items() if info is None or name == info.database)

    def _write(self, info: ConnectionInfo) -> None:
        try:
            while not self._over.is_set():
                info = self._write_to(info)
        except BaseException as error:
            self._failure = error

    def _write_to(self, info: ConnectionInfo) -> ConnectionInfo:
        with connect(info, application="shop", autocommit=True) as connection:
            while not self._over.is_set():
                try:
                    with connection.transaction():
                        _transaction(connection)
                except REFUSED:
                    self.refused += 1
                    if (there := self.moved()) is not None and there != info:
                        return there
                    time.sleep(PAUSE_SECONDS)
                    continue
                with self._lock:
                    self.committed[info.database] = self.committed.get(info.database, 0) + 1
                self._over.wait(PAUSE_SECONDS)
        return info


def _transaction(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute("INSERT INTO public.customers (name) VALUES ('new') RETURNING id").fetchone()
    assert row is not None
    connection.execute("INSERT INTO public.orders (customer, total) VALUES (%s, 1), (%s, 2)", [row[0], row[0]])
    connection.execute("INSERT INTO public.visits (\"Day\", v) VALUES ('2026-06-05', 'new')")
