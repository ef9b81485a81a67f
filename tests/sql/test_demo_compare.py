"""The demo's proof finds every kind of difference, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass

import psycopg
import pytest

from devstack.demo import compare
from devstack.postgres import PostgresServer
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import connect

TABLES = """
    CREATE TABLE keyed (id integer, part text, note text, PRIMARY KEY (part, id));
    CREATE TABLE keyless (a integer, b jsonb);
    CREATE TABLE "Odd ""Name"".x" ("select" integer PRIMARY KEY, "]]>" text);
    CREATE TABLE typed (id integer PRIMARY KEY, at timestamptz, much numeric, shape point, list integer[]);
    CREATE TABLE empty (id integer PRIMARY KEY);
    INSERT INTO keyed SELECT n, chr(97 + n % 3), 'note ' || n FROM generate_series(1, 3000) AS n;
    INSERT INTO keyless SELECT n % 5, '{"x": 1}' FROM generate_series(1, 100) AS n;
    INSERT INTO "Odd ""Name"".x" VALUES (1, ''), (2, NULL);
    INSERT INTO typed VALUES (1, 'infinity', 'NaN', '(0.1,-0)', '[0:1]={1,2}');
    INSERT INTO typed VALUES (2, '2024-01-01 00:00+02', 1.10, NULL, '{}');
"""
NAMES = [TableName("public", name) for name in ("keyed", "keyless", 'Odd "Name".x', "typed", "empty")]


@dataclass
class Pair:
    master: ConnectionInfo
    slave: ConnectionInfo

    def on_slave(self, statement: str) -> None:
        with connect(self.slave, application="test", autocommit=True, settings={"search_path": "public"}) as connection:
            connection.execute(statement)

    def verdicts(self) -> dict[str, compare.Verdict]:
        return {verdict.table.name: verdict for verdict in compare.compare(self.master, self.slave, NAMES)}


@pytest.fixture
def pair(database: Callable[..., ConnectionInfo]) -> Pair:
    found = Pair(database(), database())
    for info in (found.master, found.slave):
        with connect(info, application="test", autocommit=True, settings={"search_path": "public"}) as connection:
            connection.execute(TABLES)
    return found


def test_equal_tables_are_equal_whatever_the_order_of_rows_and_the_settings_of_the_database(
    pair: Pair, postgres: PostgresServer
) -> None:
    pair.on_slave(
        "CREATE TABLE aside AS TABLE keyed; TRUNCATE keyed; INSERT INTO keyed SELECT * FROM aside ORDER BY note DESC"
    )
    with postgres.connect() as admin:
        admin.execute(f"ALTER DATABASE \"{pair.slave.database}\" SET timezone = 'Asia/Tokyo'")
        admin.execute(f"ALTER DATABASE \"{pair.slave.database}\" SET datestyle = 'German'")
    verdicts = pair.verdicts()
    assert [name for name, verdict in verdicts.items() if not verdict.equal] == []
    assert verdicts["keyed"].master.rows == 3000  # type: ignore[union-attr]
    assert verdicts["empty"].master == compare.Side(0, "0" * 32)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("statement", "table", "expected"),
    [
        ("UPDATE keyed SET note = 'x' WHERE id = 77", "keyed", [("(c,77)", '(77,c,"note 77")', "(77,c,x)")]),
        ("DELETE FROM keyed WHERE id = 78", "keyed", [("(a,78)", '(78,a,"note 78")', None)]),
        ("INSERT INTO keyed VALUES (9999, 'zz')", "keyed", [("(zz,9999)", None, "(9999,zz,)")]),
        ("UPDATE keyed SET note = NULL WHERE id = 77", "keyed", [("(c,77)", '(77,c,"note 77")', "(77,c,)")]),
        ('UPDATE "Odd ""Name"".x" SET "]]>" = NULL', 'Odd "Name".x', [("(1)", '(1,"")', "(1,)")]),
        ("INSERT INTO keyless VALUES (3, '{\"x\": 1}')", "keyless", [('(3,"{""x"": 1}")', "20 times", "21 times")]),
        ("UPDATE typed SET much = 1.1 WHERE id = 2", "typed", None),
        ("UPDATE typed SET shape = '(0.1,0)' WHERE id = 1", "typed", None),
        ("UPDATE typed SET list = '{1,2}' WHERE id = 1", "typed", None),
    ],
)
def test_a_difference_is_found_and_shown(
    pair: Pair, statement: str, table: str, expected: list[tuple[str, str | None, str | None]] | None
) -> None:
    pair.on_slave(statement)
    verdicts = pair.verdicts()
    assert [name for name, verdict in verdicts.items() if not verdict.equal] == [table]
    found = [(entry.key, entry.master, entry.slave) for entry in verdicts[table].differences]
    assert found == expected if expected is not None else len(found) == 1


def test_two_differences_that_cancel_in_a_plain_sum_of_counts_are_found(pair: Pair) -> None:
    pair.on_slave(
        "DELETE FROM keyless WHERE ctid = (SELECT ctid FROM keyless WHERE a = 1 LIMIT 1);"
        " INSERT INTO keyless VALUES (2, '{\"x\": 1}')"
    )
    verdict = pair.verdicts()["keyless"]
    assert verdict.master.rows == verdict.slave.rows  # type: ignore[union-attr]
    assert not verdict.equal and len(verdict.differences) == 2


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DROP TABLE typed", "missing on the slave"),
        ("ALTER TABLE typed DROP COLUMN shape", "the slave lacks shape"),
        ("ALTER TABLE typed ADD COLUMN more text", "the slave has besides more"),
        ("ALTER TABLE typed ALTER COLUMN much TYPE numeric(10,2)", "the slave has other types of much"),
    ],
)
def test_another_structure_is_a_difference(pair: Pair, statement: str, problem: str) -> None:
    pair.on_slave(statement)
    verdict = pair.verdicts()["typed"]
    assert not verdict.equal
    assert verdict.problem == problem


def test_only_the_first_rows_that_differ_are_shown(pair: Pair) -> None:
    pair.on_slave("UPDATE keyed SET note = 'all'")
    assert len(pair.verdicts()["keyed"].differences) == compare.SHOWN


def test_only_tables_of_the_given_owner_are_compared(database: Callable[..., ConnectionInfo]) -> None:
    info = database(role=True)
    with psycopg.connect(
        host=info.host, port=info.port, dbname=info.database, user=info.user, password=info.password
    ) as connection:
        connection.execute('CREATE TABLE "Mine" (a integer)')
        assert compare.tables(connection, info.user) == [TableName("public", "Mine")]
        assert compare.tables(connection, "postgres") == [] or all(
            table.schema in ("pg_catalog", "information_schema") for table in compare.tables(connection, "postgres")
        )
