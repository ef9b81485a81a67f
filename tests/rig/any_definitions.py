"""Random histories of the definition of one table, with rows written between them by two sessions that overlap.

    history = History(seed, master, other, "public.t")
    history.begin()                  # makes the table
    history.step()                   # changes the definition, then rows

`master`, `other`: sessions on the master in autocommit, or one session twice: then `said` is a script.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

HUNDRED = [pytest.param(first, marks=pytest.mark.long) for first in range(0, 100, 10)]
"""The first seeds of ten groups of ten."""
STEPS = 8


def seeds(request: pytest.FixtureRequest, first: int | None, few: int) -> range:
    """Ten seeds from `first` on; without it a `few` that the run's number chooses."""
    number = request.config.option.run_number
    return range(first, first + 10) if first is not None else range(number * few, number * few + few)


def play(histories: "Iterable[History]", compare: "Callable[[History], None]") -> None:
    """Plays the histories, one after another. `compare` waits until the slave has all, and compares."""

    def settled(history: "History") -> None:
        try:
            compare(history)
        except BaseException as failure:
            failure.add_note(f"seed {history.seed}:\n" + ";\n".join(history.said))
            raise

    for history in histories:
        for _ in range(STEPS):
            history.step()
            if history.chance.random() < 0.3:
                settled(history)
        settled(history)


TYPES = {
    "smallint": "7",
    "integer": "70000",
    "bigint": "7000000000",
    "character varying(20)": "'twenty'",
    "character varying(60)": "'sixty'",
    "text": "'any text'",
    "numeric(10,2)": "1.25",
}
"""Types of columns, and a value of each."""
WIDER = {
    "smallint": ("integer", "bigint"),
    "integer": ("bigint",),
    "character varying(20)": ("character varying(60)", "text"),
    "character varying(60)": ("text",),
}
"""Types that values keep their texts in."""
NAMES = ("a", "b", "c", "d", 'Odd "name"', "ä")


class History:
    """One table and what happens to it."""

    def __init__(self, seed: int, master: psycopg.Connection, other: psycopg.Connection, table: str):
        self.chance = random.Random(seed)
        self.seed, self.master, self.other, self.table = seed, master, other, table
        self.said: list[str] = []
        # Whoever waits for the other session waits forever.
        for session in (master, other):
            session.execute("SET statement_timeout = '20s'")
        self.key = 0

    def begin(self) -> None:
        """Makes the table, with some rows."""
        parted = self.chance.random() < 0.3
        self._run(
            f"CREATE TABLE {self.table} (id int PRIMARY KEY, a integer, b integer, c text)"
            + (" PARTITION BY RANGE (id)" if parted else "")
        )
        if parted:
            self._run(f"CREATE TABLE {self.table}_1 PARTITION OF {self.table} FOR VALUES FROM (MINVALUE) TO (20)")
            self._run(f"CREATE TABLE {self.table}_2 PARTITION OF {self.table} FOR VALUES FROM (20) TO (MAXVALUE)")
        self._run(f"INSERT INTO {self.table} SELECT g, g, -g, 'c' || g FROM generate_series(1, 9) g")
        self.key = 9

    def step(self) -> None:
        """Changes the definition in one transaction, or in several; then two sessions write."""
        statements = [statement for _ in range(self.chance.choice((1, 1, 2))) for statement in self._definition()]
        if self.chance.random() < 0.2:
            statements.insert(self.chance.randrange(len(statements) + 1), self._row)
        try:
            if self.chance.random() < 0.7:
                with self._transaction(self.master, self.chance.random() < 0.15):
                    for statement in statements:
                        self._run(statement)
            else:
                for statement in statements:
                    self._run(statement)
        except psycopg.Error as refused:
            self.said.append(f"-- refused: {refused}")
        if self.chance.random() < 0.8:
            self._write()

    def columns(self) -> dict[str, str]:
        """The names of the columns beside the key, and their types."""
        rows = self.master.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = %s::regclass AND attnum > 1 AND NOT attisdropped ORDER BY attnum",
            [self.table],
        ).fetchall()
        return dict(rows)

    def _run(self, statement: Any, session: psycopg.Connection | None = None) -> None:
        text = statement() if callable(statement) else statement
        self._say(text, session or self.master)
        (session or self.master).execute(text.encode())

    def _say(self, text: str, session: psycopg.Connection) -> None:
        self.said.append(text if session is self.master else f"/* other */ {text}")

    @contextmanager
    def _transaction(self, session: psycopg.Connection, rolled_back: bool) -> Iterator[None]:
        self._say("BEGIN", session)
        try:
            with session.transaction(force_rollback=rolled_back):
                yield
        except psycopg.Error:
            rolled_back = True
            raise
        finally:
            self._say("ROLLBACK" if rolled_back else "COMMIT", session)

    def _definition(self) -> list[Any]:
        """Statements that belong together. They are made for the columns of now: some fail after others."""
        columns = self.columns()
        free = [name for name in NAMES if name not in columns]
        table = f"ALTER TABLE {self.table}"
        kind = self.chance.choice(list(TYPES))
        new = [
            f"{table} ADD COLUMN {_quoted(name)} {kind}{tail}"
            for name in free[:2]
            for tail in ("", f" DEFAULT {TYPES[kind]}", f" NOT NULL DEFAULT {TYPES[kind]}")
        ]
        if not columns:
            return [self.chance.choice(new)]
        one, two = self.chance.choice(list(columns)), self.chance.choice(list(columns))
        first, second = _quoted(one), _quoted(two)
        swap = [
            f"{table} RENAME COLUMN {first} TO third",
            f"{table} RENAME COLUMN {second} TO {first}",
            f"{table} RENAME COLUMN third TO {second}",
        ]
        ways: list[list[Any]] = [
            [self.chance.choice(new)] if new else [f"{table} DROP COLUMN {first}"],
            [f"{table} DROP COLUMN {first}"],
            [f"{table} RENAME COLUMN {first} TO {_quoted(self.chance.choice(free))}"] if free else [],
            swap if one != two else [],
            swap if one != two else [],
            [f"{table} DROP COLUMN {first}", f"{table} RENAME COLUMN {second} TO {first}"] if one != two else [],
            [
                f"{table} RENAME COLUMN {first} TO {_quoted(free[-1])}",
                f"{table} ADD COLUMN {first} {self.chance.choice(('integer', 'text', columns[one]))}",
            ]
            if free
            else [],
            [f"{table} ADD COLUMN passing {kind}", f"{table} DROP COLUMN passing"],
            [
                f"{table} ADD COLUMN {_quoted(free[0])} {kind}",
                f"UPDATE {self.table} SET {_quoted(free[0])} = {TYPES[kind]}",
                *self._retyped(table, _quoted(free[0]), kind),
            ]
            if free
            else [],
            [
                f"{table} ADD COLUMN {_quoted(free[0])} {kind} NOT NULL DEFAULT {TYPES[kind]}",
                f"{table} ALTER COLUMN {_quoted(free[0])} DROP DEFAULT",
                *(self._retyped(table, _quoted(free[0]), kind) if self.chance.random() < 0.5 else ()),
            ]
            if free
            else [],
            [
                f"{table} ADD COLUMN {_quoted(free[0])} {columns[one]}",
                f"UPDATE {self.table} SET {_quoted(free[0])} = coalesce({first}, {TYPES[columns[one]]})",
                f"{table} ALTER COLUMN {_quoted(free[0])} SET NOT NULL",
                f"{table} DROP COLUMN {first}",
                f"{table} RENAME COLUMN {_quoted(free[0])} TO {first}",
            ]
            if free
            else [],
            self._made_again(),
            [f"TRUNCATE {self.table}", self._inserted],
            [f"{table} ALTER COLUMN {first} SET DEFAULT {TYPES[columns[one]]}"],
            [f"{table} ALTER COLUMN {first} DROP DEFAULT"],
            [
                f"UPDATE {self.table} SET {first} = {TYPES[columns[one]]} WHERE {first} IS NULL",
                f"{table} ALTER COLUMN {first} SET NOT NULL",
            ],
            [f"{table} ALTER COLUMN {first} DROP NOT NULL"],
            self._retyped(table, first, columns[one]),
            self._retyped(table, first, columns[one]),
        ]
        return self.chance.choice([way for way in ways if way])

    def _made_again(self) -> list[Any]:
        """Another table with the same columns gets the name."""
        return [
            f"CREATE TABLE {self.table}_new (LIKE {self.table} INCLUDING ALL); "
            f"INSERT INTO {self.table}_new SELECT * FROM {self.table}; "
            f"DROP TABLE {self.table}; "
            f"ALTER TABLE {self.table}_new RENAME TO {self.table.removeprefix('public.')}"
        ]

    def _retyped(self, table: str, column: str, now: str) -> list[Any]:
        if (wider := WIDER.get(now)) and self.chance.random() < 0.5:
            return [f"{table} ALTER COLUMN {column} TYPE {self.chance.choice(wider)}"]
        return [f"{table} ALTER COLUMN {column} DROP DEFAULT", self.chance.choice((
            f"{table} ALTER COLUMN {column} TYPE integer USING length({column}::text)",
            f"{table} ALTER COLUMN {column} TYPE text USING 'was ' || {column}",
            f"{table} ALTER COLUMN {column} TYPE numeric(10,2) USING length({column}::text) / 4.0",
        ))]  # fmt: skip

    def _row(self) -> str:
        """An INSERT or UPDATE for the columns of now."""
        columns = {name: kind for name, kind in self.columns().items() if self.chance.random() < 0.8}
        names = [_quoted(name) for name in columns]
        values = [TYPES[kind] for kind in columns.values()]
        if self.chance.random() < 0.35 and names:
            pairs = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
            return f"UPDATE {self.table} SET {pairs} WHERE id % 3 = {self.chance.randrange(3)}"
        if self.chance.random() < 0.15:
            return f"DELETE FROM {self.table} WHERE id = {self.chance.randrange(1, self.key + 1)}"
        self.key += self.chance.randrange(1, 5)
        return f"INSERT INTO {self.table} ({', '.join(['id', *names])}) VALUES ({', '.join([str(self.key), *values])})"

    def _inserted(self) -> str:
        self.key += 1
        return f"INSERT INTO {self.table} (id) VALUES ({self.key})"

    def _write(self) -> None:
        """The other session begins, and ends before or after this one's changes."""
        for first in (True, False):
            try:
                with self._transaction(self.other, self.chance.random() < 0.3):
                    self._run(self._inserted, self.other)
                    if first:
                        self._tried(self._inserted)
                        self._tried(self._inserted)
            except psycopg.Error as refused:
                self.said.append(f"-- refused: {refused}")
        self._tried(self._row)
        self._tried(self._row)

    def _tried(self, statement: Any) -> None:
        try:
            self._run(statement)
        except psycopg.Error as refused:
            self.said.append(f"-- refused: {refused}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
