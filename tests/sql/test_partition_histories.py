"""Partitions are created and dropped in any order, with and without rows, and the queue has all row changes."""

from collections.abc import Callable
from itertools import count
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sluice.apply.window_runs import CutItem
from sluice.database import xml_images
from sluice.model.change import Action
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.target.alter import Alterer
from sluice.vendors.postgres.target.slave_tables import SlaveTables
from tests.sql.master import Item, Master, wanted

_numbers = count(1)

NAMES = ("create", "attach", "detach", "drop", "drop", "insert", "insert", "direct", "move", "delete", "truncate")
OURS = ("compare", "reconcile")
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            (*NAMES, "default", "drop default", "split", "rename", "again", "apart", "compare", "reconcile")
        ),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=25,
)


@pytest.fixture
def partitioned(database: Callable[..., ConnectionInfo], request: pytest.FixtureRequest) -> Master:
    """A master with event triggers, or with an account that may create none."""
    made = Master(database(role=request.param == "comparison"))
    made.sql("CREATE SCHEMA IF NOT EXISTS public")
    made.install()
    return made


@pytest.mark.one_in(6)
@pytest.mark.parametrize("partitioned", ["event triggers", "comparison"], indirect=True)
@pytest.mark.parametrize("kind", ["range", "list", "hash"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([("default", 0), ("insert", 1), ("reconcile", 0), ("move", 0), ("drop default", 0)])
@example([("insert", 0), ("apart", 0)])
@example([("default", 0), ("insert", 3), ("insert", 4), ("reconcile", 0), ("split", 3)])
@given(operations=OPERATIONS)
def test_the_queue_has_all_row_changes_of_partitions(
    partitioned: Master, kind: str, operations: list[tuple[str, int]]
) -> None:
    master, name = partitioned, TableName(f"s{next(_numbers)}", "Parted")
    history = History(master, name, kind)
    after = master.last_key()
    for operation, number in operations:
        history.take(operation, number)
    master.sql("SELECT demo_check_structure()")
    replica = Replica(master, name, strict=master.value("SELECT demo_has_event_triggers()"))
    replica.replay(master.items(after, ddl=True))
    assert "DIFFER" not in [item.action for item in master.items(after, ddl=True)]
    assert replica.rows() == sorted(master.rows(f'SELECT id, v FROM "{name.schema}"."Parted"'))
    replica.drop()
    master.register()
    master.sql(f'DROP SCHEMA "{name.schema}" CASCADE')


class History:
    """A history of a partitioned table: statements that PostgreSQL refuses are no part of it."""

    BOUNDS: dict[str, Callable[[int], str]] = {  # noqa: RUF012
        "range": lambda n: f"FROM ({n * 10}) TO ({n * 10 + 10})",
        "list": lambda n: "IN (" + ", ".join(str(n * 10 + i) for i in range(10)) + ")",
        "hash": lambda n: f"WITH (MODULUS 5, REMAINDER {n})",
    }

    def __init__(self, master: Master, table: TableName, kind: str):
        self.master = master
        self.table = table
        self.bound = self.BOUNDS[kind]
        self.place = f'"{table.schema}"'
        self.values = count(1)
        master.sql(
            f"CREATE SCHEMA {self.place}",
            f'CREATE TABLE {self.place}."Parted" (id int PRIMARY KEY, v text) PARTITION BY {kind} (id)',
            *(self._create(number) for number in (0, 1)),
        )
        master.register(table)

    def _create(self, number: int) -> str:
        partition = f"CREATE TABLE {self.place}.p{number} PARTITION OF {self.place}"
        return f'{partition}."Parted" FOR VALUES {self.bound(number)}'

    def take(self, operation: str, number: int) -> None:
        if operation == "reconcile":
            self.master.reconcile(wanted(self.table))
            return
        value, parted, leaf = next(self.values), f'{self.place}."Parted"', f"{self.place}.p{number}"
        rows = f"SELECT g, 'v{value}' FROM generate_series({number * 10}, {number * 10 + 9}, 2) g"
        within = f"id BETWEEN {number * 10} AND {number * 10 + 9}"
        statements = {
            "create": self._create(number),
            "attach": f"CREATE TABLE {leaf} (LIKE {parted} INCLUDING ALL); INSERT INTO {leaf} {rows}; "
            f"ALTER TABLE {parted} ATTACH PARTITION {leaf} FOR VALUES {self.bound(number)}",
            "detach": f"ALTER TABLE {parted} DETACH PARTITION {leaf}; ALTER TABLE {leaf} RENAME TO was_{value}",
            "drop": f"DROP TABLE {leaf}",
            "insert": f"INSERT INTO {parted} {rows} ON CONFLICT (id) DO UPDATE SET v = excluded.v",
            "direct": f"INSERT INTO {leaf} {rows} ON CONFLICT DO NOTHING",
            "move": f"UPDATE {parted} SET id = (id + 10) % 50, v = 'm{value}' WHERE id % 10 = {number * 2}",
            "delete": f"DELETE FROM {parted} WHERE {within}",
            "truncate": f"TRUNCATE {leaf}",
            "default": f"CREATE TABLE {self.place}.rest PARTITION OF {parted} DEFAULT",
            "drop default": f"DROP TABLE {self.place}.rest",
            "rename": f"ALTER TABLE {leaf} RENAME TO q{value}",
            "again": f"BEGIN; DROP TABLE {leaf}; {self._create(number)}; INSERT INTO {leaf} {rows}; COMMIT",
            "apart": f"BEGIN; ALTER TABLE {parted} DETACH PARTITION {leaf}; "
            f"UPDATE {leaf} SET v = 'a{value}' WHERE id % 3 = 0; DELETE FROM {leaf} WHERE id % 3 = 1; "
            f"ALTER TABLE {parted} ATTACH PARTITION {leaf} FOR VALUES {self.bound(number)}; COMMIT",
            "split": f"BEGIN; ALTER TABLE {parted} DETACH PARTITION {self.place}.rest; {self._create(number)}; "
            f"INSERT INTO {parted} SELECT id, v || '<' FROM {self.place}.rest WHERE {within}; "
            f"DELETE FROM {self.place}.rest WHERE {within}; "
            f"ALTER TABLE {parted} ATTACH PARTITION {self.place}.rest DEFAULT; COMMIT",
            "compare": "SELECT public.demo_check_structure()",
        }
        try:
            self.master.sql(statements[operation])
        except psycopg.Error as error:
            if error.sqlstate == "42501" or "demo_" in str(error):
                raise
            self.master.sql("ROLLBACK")


class Replica:
    """A plain table to which items are applied one by one; strictly, or as in safe mode."""

    def __init__(self, master: Master, table: TableName, *, strict: bool):
        self.strict = strict
        self.connection: psycopg.Connection[Any] = master.session()
        self.table = table
        self.here = TableName(f"replica of {table.schema}", table.name)
        self.name = quoted(self.here.schema, self.here.name)
        self.connection.execute(f"CREATE SCHEMA {quoted(self.here.schema)}".encode())
        self.connection.execute(f"CREATE TABLE {self.name} (id int PRIMARY KEY, v text)".encode())
        self.alterer = Alterer(self.connection, SlaveTables(self.connection))

    def replay(self, items: list[Item]) -> None:
        statements = {
            "INSERT": f"INSERT INTO {self.name} VALUES (%(id)s, %(v)s)",
            "UPDATE": f"UPDATE {self.name} SET id = %(id)s, v = %(v)s WHERE id = %(old id)s AND v = %(old v)s",
            "DELETE": f"DELETE FROM {self.name} WHERE id = %(old id)s AND v = %(old v)s",
        }
        for item in (item for item in items if item.table == self.table):
            if item.action in statements:
                old = {f"old {name}": value for name, value in item.old_row.items()}
                if not self.strict:
                    self._bring(item)
                    continue
                cursor = self.connection.execute(statements[item.action].encode(), {**item.new, **old})
                assert cursor.rowcount == 1, f"{item} does not fit: {self.rows()}"
            elif item.action in (Action.TRUNCATE, Action.DELETE_WHERE):
                with self.connection.transaction():
                    bound = xml_images.bound(item.content) if item.content else None
                    cut = CutItem(item.repl_key, 0, Action(item.action), self.here, bound=bound)
                    if cut.action is Action.TRUNCATE:
                        self.alterer.truncate([self.here])
                    else:
                        self.alterer.delete_where(cut)

    def _bring(self, item: Item) -> None:
        """Applies the items. If DDL is found by comparison, rows of a dropped partition may be deleted after others
        took their keys."""
        for row in (item.old_row if item.action != "INSERT" else {}, item.new):
            if row:
                self.connection.execute(f"DELETE FROM {self.name} WHERE id = %(id)s".encode(), row)
        if item.new:
            self.connection.execute(f"INSERT INTO {self.name} VALUES (%(id)s, %(v)s)".encode(), item.new)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.connection.execute(f"SELECT id, v FROM {self.name}".encode()).fetchall())

    def drop(self) -> None:
        self.connection.execute(f"DROP SCHEMA {quoted(self.here.schema)} CASCADE".encode())
        self.connection.close()
