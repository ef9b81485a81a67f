"""Tables and traffic of a MariaDB master: TPC-B, every type, odd names, text keys, tables without a key, DDL."""

import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

import pymysql

from workload.writer import Pace, Tally

ACCOUNTS, TELLERS = 100_000, 10
"""Rows a scale, as pgbench makes them."""
KEYS = 60
ODD = '`Od"d ``name`` %s {x} ü`'
Connection: TypeAlias = "pymysql.Connection[Any]"

_TYPES = (
    "a tinyint, b smallint unsigned, c mediumint, d int unsigned, e bigint unsigned, f decimal(30,8), g float, "
    "h double, i bit(9), j date, k datetime(6), l timestamp(3) NULL, m time(6), n year, o char(9), "
    "p varchar(200), q text, r varchar(40) CHARACTER SET latin1, s binary(4), t varbinary(40), u blob, "
    "v enum('x','it''s','é'), w set('a','b'), x json, y uuid, z inet6"
)
_VALUES = (
    "-128, 65535, 8388607, 4294967295, 18446744073709551615, -1234567890123456789012.00000001, 0.1, 5e-324, "
    "b'101', '0001-01-01', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07.999', '-838:59:59', 2155, 'a', "
    "'<&>'' \\\\ ]]>', '🐘\\n\\t', 'ü€', x'00ff', x'0001', x'', 'it''s', 'a,b', '{\"a\": null}', "
    "'123e4567-e89b-12d3-a456-426655440000', '::1'"
)
DDL = (
    "CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88))",
    "CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84))",
    "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
    "CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime datetime(6), filler char(22))",
    "CREATE TABLE heartbeat (id int PRIMARY KEY, beat bigint NOT NULL, written_at timestamp NOT NULL)",
    "INSERT INTO heartbeat VALUES (1, 0, CURRENT_TIMESTAMP)",
    f"CREATE TABLE every_type (id int PRIMARY KEY, {_TYPES})",
    f"INSERT INTO every_type VALUES (1, {_VALUES})",
    "INSERT INTO every_type (id) VALUES (2)",
    f'CREATE TABLE {ODD} (`select` int PRIMARY KEY, `Mixed "Column" é` varchar(20))',
    "CREATE TABLE words (word varchar(60) PRIMARY KEY, version int NOT NULL)",
    "CREATE TABLE orders (id bigint unsigned AUTO_INCREMENT PRIMARY KEY, note varchar(60))",
    "CREATE TABLE order_lines (order_id bigint unsigned, line int, amount int NOT NULL, "
    "total decimal(20,2) AS (amount * 1.25) STORED, PRIMARY KEY (order_id, line), "
    "FOREIGN KEY (order_id) REFERENCES orders (id))",
    "CREATE TABLE seats (id int PRIMARY KEY, place int, UNIQUE (place))",
    "CREATE TABLE notes (a int, b varchar(60))",
    "CREATE TABLE scratch (id int PRIMARY KEY, version int NOT NULL)",
    "CREATE TABLE changing (id int PRIMARY KEY, value varchar(60))",
)


def fill(connection: Connection, scale: int) -> None:
    """Makes the tables with their first rows."""
    accounts, tellers = ACCOUNTS * scale, TELLERS * scale
    rows = (
        f"INSERT INTO pgbench_branches SELECT seq, 0, '' FROM seq_1_to_{scale}",
        f"INSERT INTO pgbench_tellers SELECT seq, 1 + (seq - 1) DIV {TELLERS}, 0, '' FROM seq_1_to_{tellers}",
        f"INSERT INTO pgbench_accounts SELECT seq, 1 + (seq - 1) DIV {ACCOUNTS}, 0, '' FROM seq_1_to_{accounts}",
        f"INSERT INTO seats SELECT seq, seq FROM seq_1_to_{KEYS}",
    )
    with connection.cursor() as cursor:
        for statement in (*DDL, *rows):
            cursor.execute(statement)


class Work:
    """An open transaction: it runs statements and counts the changed rows."""

    def __init__(self, connection: Connection, chance: Random, scale: int):
        self.chance, self.scale, self.changes = chance, scale, 0
        self._cursor = connection.cursor()

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.changes += max(0, self._cursor.execute(statement))


def transfer(work: Work) -> None:
    """TPC-B's transaction."""
    chance = work.chance
    account, teller = chance.randint(1, ACCOUNTS * work.scale), chance.randint(1, TELLERS * work.scale)
    branch, delta = chance.randint(1, work.scale), chance.randint(-5000, 5000)
    work.run(
        f"UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {account}",
        f"UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {teller}",
        f"UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = {branch}",
        f"INSERT INTO pgbench_history VALUES ({teller}, {branch}, {account}, {delta}, now(6), NULL)",
    )


def mixed(work: Work) -> None:
    """A few small changes, some of which a savepoint undoes."""
    chance = work.chance
    for _ in range(chance.randint(1, 5)):
        a, b = chance.randint(1, KEYS), chance.randint(1, KEYS)
        lines = f"INSERT INTO order_lines (order_id, line, amount) SELECT last_insert_id(), seq, {b} FROM seq_1_to_3"
        kinds = (
            [f"REPLACE INTO words VALUES (concat('Wört ', {a}), {b})"],
            [f"UPDATE IGNORE words SET word = concat('wort', {b}) WHERE word = concat('WORT ', {a})"],
            [f"DELETE FROM words WHERE word = concat('wort', {b})"],
            [f"INSERT INTO orders (note) VALUES ('{a}')", lines],
            [f"UPDATE order_lines SET amount = amount + 1 WHERE order_id % {KEYS} = {a} LIMIT 5"],
            [f"UPDATE seats SET place = {new} WHERE place = {old}" for old, new in ((a, 0), (b, a), (0, b))],
            [f"INSERT INTO notes VALUES ({a}, 'é {b}')"],
            [f"DELETE FROM notes WHERE a = {a} LIMIT 1"],
            [f"REPLACE INTO scratch VALUES ({a}, {b})"],
            [f"REPLACE INTO changing (id, value) VALUES ({a}, repeat('€', {b}))"],
            [f"REPLACE INTO every_type (id, e, f, h, p) VALUES ({a} + 2, {b}, {b} / 7, {b} / 3, '{b}')"],
            [f"REPLACE INTO {ODD} VALUES ({a}, '{b}')"],
        )
        undone = chance.random() < UNDONE
        work.run(*(["SAVEPOINT s"] if undone else []), *chance.choice(kinds), *(["ROLLBACK TO s"] if undone else []))


def define(work: Work) -> None:
    """Empties a table, or adds and drops a column."""
    name = f"c{work.chance.randint(0, 2)}"
    kinds = (
        "TRUNCATE scratch",
        f"ALTER TABLE changing ADD COLUMN IF NOT EXISTS {name} int NOT NULL DEFAULT 7",
        f"ALTER TABLE changing DROP COLUMN IF EXISTS {name}",
    )
    work.run(work.chance.choice(kinds))


WRITERS: Sequence[tuple[Callable[[Work], None], float]] = (
    *((transfer, 0.0), (transfer, 0.0)),
    *((mixed, 0.0), (mixed, 0.05)),
    (define, 3.0),
)
"""What each writer does in a transaction, and its pause after one in seconds."""
EXPECTED = frozenset({1205, 1213, 1062, 1020})
"""Lock time-outs, deadlocks, duplicate keys, and rows that changed since they were read: of concurrent traffic."""
UNDONE = 0.15
"""The share of transactions, and of savepoints, that are rolled back."""


class Writer(threading.Thread):
    """Writes until stopped. `failure`: what ended it before."""

    def __init__(self, connect: Callable[[], Connection], number: int, scale: int, seed: int, pace: Pace):
        super().__init__(name=f"writer {number}", daemon=True)
        self.tally, self.failure = Tally(), ""
        self._chance, self._scale = Random(f"{seed} writer {number}"), scale
        self._transaction, self._pause = WRITERS[number]
        self._connect, self._pace = connect, pace
        self._enough = threading.Event()

    def stop(self) -> None:
        """Ends the writer after its current transaction."""
        self._enough.set()

    def run(self) -> None:
        try:
            with self._connect() as connection:
                connection.autocommit(False)
                while not self._enough.is_set():
                    self._enough.wait(max(self._pause, self._pace.delay(self._write(connection))))
        except pymysql.Error as error:
            self.failure = f"{self.name}: {error}"

    def _write(self, connection: Connection) -> int:
        work = Work(connection, self._chance, self._scale)
        try:
            self._transaction(work)
        except pymysql.Error as error:
            connection.rollback()
            self.tally.rolled_back += 1
            if error.args[0] not in EXPECTED:
                raise
            return work.changes
        if self._chance.random() < UNDONE:
            connection.rollback()
            self.tally.rolled_back += 1
        else:
            connection.commit()
            self.tally.committed += 1
            self.tally.changes += work.changes
        return work.changes
