"""The reading of a MariaDB's binary log says what its tables have, however transactions end."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pymysql
import pytest

from devstack.account import new_folder
from devstack.mariadb import MariaDBServer, ensure_installed
from devstack.process import await_true
from tests.scenarios.faults import binlog

LOG = "CREATE TABLE log (writer int, n int, what longtext, PRIMARY KEY (writer, n))"
STAGE = ("DROP TEMPORARY TABLE IF EXISTS stage", "CREATE TEMPORARY TABLE stage (a int)", "INSERT INTO stage VALUES (1)")
COLUMNS = {"log": ["writer", "n", "what"]}
WRITERS = 3
CRASHES = 2
LONG = 300_000
"""Characters of a value: a crash finds the server writing."""


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDBServer]:
    ensure_installed()
    running = MariaDBServer(new_folder("sluice-binlog-"), settings=binlog.SETTINGS)
    try:
        running.start(die_with_parent=True)
        yield running
    finally:
        running.stop()
        shutil.rmtree(running.directory, ignore_errors=True)


@pytest.fixture
def database(server: MariaDBServer) -> Iterator[str]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("USE shop")
        cursor.execute(LOG)
    binlog.begin(server)
    yield "shop"
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE shop")


class Writer(threading.Thread):
    """Transactions with stages, savepoints, long values and rollbacks, until the server has gone."""

    def __init__(self, server: MariaDBServer, number: int, turn: int):
        super().__init__(daemon=True)
        self.server, self.number = server, number
        self.random = Random(f"{number} {turn}")
        self.next = 1_000_000 * turn
        self.commits = 0

    def run(self) -> None:
        with suppress(pymysql.Error, OSError), self.server.connect("shop") as connection, connection.cursor() as cursor:
            while True:
                cursor.execute("BEGIN")
                self._transaction(cursor)
                cursor.execute(self.random.choice(("COMMIT", "COMMIT", "ROLLBACK")))
                self.commits += 1

    def _transaction(self, cursor: "pymysql.cursors.Cursor") -> None:
        savepoints: list[str] = []
        for _ in range(self.random.randrange(1, 8)):
            match self.random.randrange(6):
                case 0:
                    for statement in STAGE:
                        cursor.execute(statement)
                case 1:
                    savepoints.append(f"s{len(savepoints)}")
                    cursor.execute(f"SAVEPOINT {savepoints[-1]}")
                case 2 if savepoints:
                    del savepoints[self.random.randrange(len(savepoints)) + 1 :]
                    cursor.execute(f"ROLLBACK TO SAVEPOINT {savepoints[-1]}")
                case _:
                    self.next += 1
                    length = self.random.choice((0, 10, LONG))
                    values = (self.number, self.next, length)
                    cursor.execute("INSERT INTO log VALUES (%s, %s, REPEAT('x', %s))", values)


@pytest.mark.long
def test_after_crashes_and_rollbacks_the_log_has_what_the_table_has(server: MariaDBServer, database: str) -> None:
    """Once in 200 crashes, on a busy machine, the log had a transaction that the table lacked; we do not know why."""
    for turn in range(CRASHES):
        writers = [Writer(server, number, turn) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        assert await_true(lambda: all(writer.commits > 3 for writer in writers), 60.0)  # noqa: B023
        server.kill()
        for writer in writers:
            writer.join()
        server.start(die_with_parent=True)
    logged = [line for commit in binlog.commits(server, database) for line in commit.logged]
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT writer, n FROM log")
        there = cursor.fetchall()
    assert sorted(logged) == sorted(there)
    assert len(there) > CRASHES * WRITERS


@pytest.mark.long
def test_a_file_that_ends_within_an_event_is_read_up_to_there(
    server: MariaDBServer, database: str, tmp_path: Path
) -> None:
    with server.connect(database) as connection, connection.cursor() as cursor:
        for number in (1, 2):
            cursor.execute("INSERT INTO log VALUES (1, %s, '')", [number])
        cursor.execute("SHOW MASTER STATUS")
        name = cursor.fetchone()[0]
    whole = (server.data / name).read_bytes()
    found = set()
    for length in range(len(whole) - 120, len(whole) + 1, 5):
        cut_off = tmp_path / str(length)
        cut_off.write_bytes(whole[:length])
        numbers = [line for commit in binlog.read(binlog.shown(cut_off), database, COLUMNS) for line in commit.logged]
        found.add(tuple(numbers))
    assert found == {((1, 1),), ((1, 1), (1, 2))}


def test_a_file_that_is_damaged_is_an_error(tmp_path: Path) -> None:
    damaged = tmp_path / "binlog.000001"
    damaged.write_bytes(b"no binary log")
    with pytest.raises(AssertionError, match=r"binlog\.000001 cannot be read: .*ERROR"):
        list(binlog.shown(damaged))
