"""Any history of changes, rolled back in part or not, replays to the master's rows."""

from collections.abc import Callable
from dataclasses import dataclass

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.model.connection import ConnectionInfo
from tests.examples import examples
from tests.sql.master import Master, Model

TABLES = {
    "keyed": "CREATE TABLE keyed (id int PRIMARY KEY, v text, n numeric)",
    "pair": 'CREATE TABLE pair (a text, "B" int, v text, n numeric, PRIMARY KEY ("B", a))',
    "loose": "CREATE TABLE loose (id int, v text, n numeric)",
    "parts": "CREATE TABLE parts (id int PRIMARY KEY, v text, n numeric) PARTITION BY RANGE (id)",
}
KEY = {"keyed": "id", "pair": '"B"', "loose": "id", "parts": "id"}

IDS = st.integers(0, 12)
TEXTS = st.sampled_from([None, "", "a", "<&>", "]]>", "line\nbreak", "é🐘", "a b"])
NUMBERS = st.sampled_from(["0", "1.0", "1.00", "NULL", "'NaN'", "-5"])


@dataclass(frozen=True)
class Step:
    kind: str
    table: str = ""
    first: int = 0
    second: int = 0
    text: str | None = None
    number: str = "0"


def changes() -> st.SearchStrategy[Step]:
    kinds = st.sampled_from(
        [
            "insert",
            "insert many",
            "upsert",
            "update",
            "move",
            "shift",
            "rewrite all",
            "delete",
            "delete many",
            "merge",
            "truncate",
        ]
    )
    return st.builds(Step, kinds, st.sampled_from(list(TABLES)), IDS, IDS, TEXTS, NUMBERS)


BORDERS = st.sampled_from(["savepoint", "rollback to", "release", "commit", "rollback"]).map(Step)


def statement(step: Step) -> str:
    table, key, n = step.table, KEY[step.table], step.number
    columns = f"(a, {key}, v, n)" if table == "pair" else f"({key}, v, n)"
    extra = "'k', " if table == "pair" else ""
    conflict = '("B", a)' if table == "pair" else "(id)"
    series = f"generate_series({step.first}, {step.second})"
    return {
        "insert": f"INSERT INTO {table} {columns} VALUES ({extra}{step.first}, %(v)s, {n})",
        "insert many": f"INSERT INTO {table} {columns} SELECT {extra}g, %(v)s, {n} FROM {series} g",
        "upsert": f"INSERT INTO {table} {columns} SELECT {extra}g, %(v)s, {n} FROM {series} g "
        + ("" if table == "loose" else f"ON CONFLICT {conflict} DO UPDATE SET v = excluded.v, n = {table}.n * 1.0"),
        "update": f"UPDATE {table} SET v = %(v)s, n = {n} WHERE {key} = {step.first}",
        "move": f"UPDATE {table} SET {key} = {step.second}, v = %(v)s WHERE {key} = {step.first}",
        "shift": f"UPDATE {table} SET {key} = {key} + 13 WHERE {key} <= {step.first}",
        "rewrite all": f"UPDATE {table} SET v = v || 'x', n = n",
        "delete": f"DELETE FROM {table} WHERE {key} = {step.first}",
        "delete many": f"DELETE FROM {table} WHERE {key} BETWEEN {step.first} AND {step.second}",
        "merge": f"MERGE INTO {table} t USING {series} g ON t.{key} = g "
        f"WHEN MATCHED AND g %% 2 = 0 THEN UPDATE SET v = %(v)s WHEN MATCHED THEN DELETE "
        f"WHEN NOT MATCHED THEN INSERT {columns} VALUES ({extra}g, %(v)s, {n})",
        "truncate": f"TRUNCATE {table}",
    }[step.kind]


class Application:
    """Runs a history in one session; a failing statement undoes only itself."""

    def __init__(self, connection: psycopg.Connection):
        self.connection = connection
        self.savepoints: list[str] = []

    def run(self, step: Step) -> None:
        if step.kind == "merge" and self.connection.info.server_version < 150000:
            return
        if step.kind == "savepoint":
            self.savepoints.append(f"s{len(self.savepoints)}")
            self.connection.execute(f"SAVEPOINT {self.savepoints[-1]}")
        elif step.kind in ("rollback to", "release"):
            if self.savepoints:
                self.connection.execute(f"{step.kind} {self.savepoints.pop()}")
        elif step.kind in ("commit", "rollback"):
            self.connection.execute(step.kind)
            self.savepoints.clear()
        else:
            self.connection.execute("SAVEPOINT one")
            try:
                self.connection.execute(statement(step), {"v": step.text})
            except (psycopg.errors.IntegrityError, psycopg.errors.CardinalityViolation):
                self.connection.execute("ROLLBACK TO one")
            self.connection.execute("RELEASE one")


@pytest.fixture(params=["event triggers", "comparison"])
def played(request: pytest.FixtureRequest, database: Callable[..., ConnectionInfo]) -> Master:
    master = Master(database(role=request.param == "comparison"))
    master.install()
    master.sql(*TABLES.values())
    master.sql(
        *(f"CREATE TABLE parts_{n} PARTITION OF parts FOR VALUES FROM ({n * 5}) TO ({n * 5 + 5})" for n in range(5))
    )
    master.sql("CREATE TABLE parts_rest PARTITION OF parts DEFAULT")
    master.register(*TABLES)
    return master


@pytest.mark.one_in(2)
@given(history=st.lists(st.one_of(changes(), changes(), changes(), BORDERS), max_size=40))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history_replays_to_the_rows_of_the_master(played: Master, history: list[Step]) -> None:
    model = Model()
    for table in TABLES:
        model.start(table, played.contents(table))
    after = played.last_key()
    with played.session(autocommit=False) as connection:
        application = Application(connection)
        for step in history:
            application.run(step)
    model.replay(played.items(after))
    for table in TABLES:
        assert model.contents(table) == played.contents(table), table
