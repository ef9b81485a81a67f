"""Random writers on a master: inserts, updates of values and keys, deletes, rollbacks, savepoints, late commits."""

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import connect


class Undo(Exception):
    """Rolls a savepoint or transaction back."""


@dataclass(frozen=True)
class Writable:
    """A table under traffic: its name quoted, its key columns, and SQL that makes a random key and value."""

    name: str
    key: tuple[str, ...]
    make_key: str
    """SQL expressions of a random key (as a row), with `random()` and friends."""
    value: str = "v"

    @property
    def keys(self) -> str:
        return ", ".join(self.key)

    @property
    def a_row(self) -> str:
        """A condition that picks about one existing row, any: near a random key in key order."""
        return (
            f"({self.keys}) = (SELECT {self.keys} FROM {self.name} WHERE ({self.keys}) >= (SELECT {self.make_key}) "
            f"ORDER BY {self.keys} LIMIT 1)"
        )


class Traffic:
    """Writers, each a thread with its own connection; a context manager."""

    def __init__(self, info: ConnectionInfo, tables: Sequence[Writable], writers: int = 3, seed: int = 0):
        self.info = info
        self.tables = tables
        self.stop = threading.Event()
        self.transactions = 0
        """How many were committed."""
        self.failure: BaseException | None = None
        self._threads = [threading.Thread(target=self._write, args=[seed * 100 + n]) for n in range(writers)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()
        if self.failure:
            raise self.failure

    def _write(self, seed: int) -> None:
        chance = random.Random(seed)
        connection = connect(self.info, application=f"writer {seed}", autocommit=True)
        connection.execute("SET search_path TO pg_catalog, public")
        connection.execute("SET lock_timeout = '500ms'")
        try:
            while not self.stop.is_set():
                self.transactions += self._transaction(connection, chance)
        except BaseException as failure:
            self.failure = failure
            self.stop.set()
        finally:
            connection.close()

    def _transaction(self, connection: Any, chance: random.Random) -> bool:
        """Whether it was committed."""
        try:
            with connection.transaction():
                for _ in range(chance.randint(1, 5)):
                    try:
                        with connection.transaction():
                            self._statement(connection, chance)
                            if chance.random() < 0.1:
                                raise Undo
                    except (Undo, psycopg.errors.UniqueViolation):
                        pass
                if chance.random() < 0.15:
                    self.stop.wait(chance.random() * 0.2)  # commits late
                if chance.random() < 0.1:
                    raise Undo
        except (Undo, psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            return False
        return True

    def _statement(self, connection: Any, chance: random.Random) -> None:
        table = chance.choice(self.tables)
        text = f"v{chance.random()}"
        if not table.key:
            statement = chance.choice(
                [
                    f"INSERT INTO {table.name} ({table.value}) VALUES ('v' || (random() * 5)::int)",
                    f"UPDATE {table.name} SET {table.value} = '{text}' WHERE ctid = (SELECT ctid FROM {table.name} "
                    "OFFSET floor(random() * 20) LIMIT 1)",
                    f"DELETE FROM {table.name} WHERE ctid = (SELECT ctid FROM {table.name} LIMIT 1)",
                ]
            )
        else:
            statement = chance.choice(
                [
                    f"INSERT INTO {table.name} ({table.keys}, {table.value}) SELECT {table.make_key}, '{text}' "
                    "ON CONFLICT DO NOTHING",
                    f"UPDATE {table.name} SET {table.value} = '{text}' WHERE {table.a_row}",
                    f"UPDATE {table.name} SET ({table.keys}) = ROW({table.make_key}) WHERE {table.a_row}",
                    f"DELETE FROM {table.name} WHERE {table.a_row}",
                ]
            )
        connection.execute(statement)
