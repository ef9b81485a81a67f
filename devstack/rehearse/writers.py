"""Writers that change the tables while a script runs, and what they meet: waits, errors."""

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import psycopg

from devstack.postgres import PostgresServer
from devstack.rehearse.rows import made_up, tables_of
from sluice.vendors.postgres.connection import quoted
from sluice.verify.rehearsal import Waits

APPLICATION = "rehearsal writer"
PAUSE_SECONDS = 0.01
"""Of a writer between two statements: it is an application, no benchmark."""
SAMPLE_SECONDS = 0.02
FIRST = 1_000_000_000
"""The least number in a statement: no row has it, so a statement that passes once passes with others."""
RUN_UP_SECONDS = 0.3
"""They write that long before the script begins."""
_WAITING = """
SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'
"""


def statements_of(connection: "psycopg.Connection[Any]") -> list[str]:
    """Statements that an application could run, one of each kind for each table: a row that is set to what it is, and a
    new row. `{n}` stands for a number that is another one each time."""
    found = []
    for table in tables_of(connection):
        plain = [column for column in table.columns if not column.default]
        if not plain:
            continue
        kept = quoted(plain[-1].name)
        found.append(
            f"UPDATE {table.quoted} SET {kept} = {kept} "
            f"WHERE ctid = (SELECT ctid FROM {table.quoted} OFFSET {{n}} % 100 LIMIT 1)"
        )
        names = ", ".join(quoted(column.name) for column in plain)
        values = ", ".join(made_up(column) for column in plain)
        found.append(
            f"INSERT INTO {table.quoted} ({names}) SELECT {values} FROM (SELECT {{n}}) x (g) ON CONFLICT DO NOTHING"
        )
    return found


def accepted(connection: "psycopg.Connection[Any]", statements: Sequence[str]) -> list[str]:
    """The statements that do not fail before the script; tries each in a transaction that is rolled back."""
    found = []
    for number, statement in enumerate(statements):
        with contextlib.suppress(psycopg.Error), connection.transaction(force_rollback=True):
            connection.execute(_numbered(statement, FIRST + number))
            found.append(statement)
    return found


def _numbered(statement: str, number: int) -> bytes:
    return statement.replace("{n}", str(number)).encode()


class Writers:
    """A context: so many sessions run the statements, in an order that their numbers decide."""

    def __init__(self, server: PostgresServer, database: str, statements: Sequence[str], number: int):
        self._server, self._database = server, database
        self._statements = statements if number else ()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=[one], daemon=True) for one in range(number)]
        self._lock = threading.Lock()
        self._errors: Counter[str] = Counter()
        self.waits = Waits(0, 0.0, 0.0)

    def __enter__(self) -> Self:
        if self._statements:
            for thread in (*self._threads, threading.Thread(target=self._sample, daemon=True)):
                thread.start()
            time.sleep(RUN_UP_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(30.0)
        self.waits.errors = dict(self._errors.most_common(10))

    def _connected(self) -> "psycopg.Connection[Any]":
        connection = self._server.connect(self._database)
        connection.execute("SELECT pg_catalog.set_config('application_name', %s, false)", [APPLICATION])
        return connection

    def _write(self, number: int) -> None:
        chance = random.Random(number)
        while not self._ended.is_set():
            try:
                with self._connected() as connection:
                    while not self._ended.wait(PAUSE_SECONDS):
                        self._one(connection, chance)
            except psycopg.Error:  # a script may end every session
                self._ended.wait(0.1)

    def _one(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> None:
        statement = _numbered(chance.choice(self._statements), chance.randrange(FIRST, 2_000_000_000))
        begun, error = time.monotonic(), ""
        try:
            connection.execute(statement)
        except psycopg.Error as failure:
            if failure.sqlstate is None:
                raise
            error = f"{failure.sqlstate} {failure.diag.message_primary}"
        seconds = time.monotonic() - begun
        with self._lock:
            self.waits.statements += 1
            self.waits.longest = max(self.waits.longest, seconds)
            if error:
                self._errors[error] += 1

    def _sample(self) -> None:
        with contextlib.suppress(psycopg.Error), self._server.connect(self._database) as connection:
            before = time.monotonic()
            while not self._ended.wait(SAMPLE_SECONDS):
                row = connection.execute(_WAITING, [APPLICATION]).fetchone()
                now = time.monotonic()
                self.waits.waited += (int(row[0]) if row else 0) * (now - before)
                before = now
