"""Values become text by their types' output functions: user-defined casts to text are never called."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from sluice.apply.window_runs import CutItem
from sluice.model.change import Action
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.postgres import key_order
from sluice.vendors.postgres.target.alter import Alterer
from sluice.vendors.postgres.target.slave_tables import SlaveTables
from tests.sql.master import Master, Model

# Kinds of types that an account without privileges can make, each with two values.
TYPES = {
    "composite": ("CREATE TYPE app.own AS (x int, y int)", "(1,2)", "(3,4)"),
    "composite of texts": ("CREATE TYPE app.own AS (x text, y int)", '("a <",2)', '("b <",4)'),
    "enum": ("CREATE TYPE app.own AS ENUM ('a', 'b')", "a", "b"),
    "range": ("CREATE TYPE app.own AS RANGE (subtype = float8)", "[1,2)", "[3,4)"),
}


def evil_cast(source: str) -> tuple[str, ...]:
    return (
        f"CREATE FUNCTION app.evil(v {source}) RETURNS text LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO app.seen VALUES (current_user); RETURN 'forged'; END $$",
        f"CREATE CAST ({source} AS text) WITH FUNCTION app.evil({source}) AS IMPLICIT",
    )


@pytest.fixture
def application(master: Master) -> Iterator[psycopg.Connection[Any]]:
    """A session of an account that owns schema `app` and has no other privileges."""
    role = f"app_{master.info.database}"
    master.sql(f"CREATE ROLE {role} LOGIN", f"CREATE SCHEMA app AUTHORIZATION {role}")
    session = master.session()
    session.execute(f"SET SESSION AUTHORIZATION {role}")
    session.execute("CREATE TABLE app.seen (who text)")
    yield session
    session.close()
    master.sql(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


@pytest.mark.one_in(24)
@pytest.mark.parametrize("later", [False, True], ids=["cast before", "cast after"])
@pytest.mark.parametrize("wrapped", ["app.own", "app.low", "app.own[]"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_cast_of_others_never_runs(
    master: Master, application: psycopg.Connection[Any], kind: str, wrapped: str, later: bool
) -> None:
    definition, first, second = TYPES[kind]
    application.execute(definition)
    application.execute("CREATE DOMAIN app.low AS app.own")
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in (first, second)]
    values = ['{"' + value + '"}' for value in quoted] if wrapped == "app.own[]" else [first, second]
    casts = evil_cast("app.own[]" if wrapped == "app.own[]" else "app.own")
    if not later:
        for statement in casts:
            application.execute(statement)
    application.execute(
        f"CREATE TABLE app.t (id {wrapped} PRIMARY KEY, v {wrapped}, w {wrapped} NOT NULL, n int UNIQUE);"
        f"CREATE TABLE app.pairs (id {wrapped}, n int, v {wrapped}, PRIMARY KEY (n, id)) PARTITION BY LIST (n);"
        "CREATE TABLE app.pairs_rest PARTITION OF app.pairs DEFAULT"
    )
    tables = [TableName("app", "t"), TableName("app", "pairs")]
    master.register(*tables)
    if later:
        for statement in casts:
            application.execute(statement)
    a, b = (f"$v${value}$v$::{wrapped}" for value in values)
    for statement in (
        f"INSERT INTO app.t VALUES ({a}, {b}, {b}, 1), ({b}, NULL, {a}, 2)",
        f"UPDATE app.t SET v = {a}, w = {b}",
        f"UPDATE app.t SET v = NULL, w = {a} WHERE n = 1",
        "DELETE FROM app.t WHERE n = 1",
        f"UPDATE app.t SET id = {a}",
        f"INSERT INTO app.pairs VALUES ({a}, 1, {b}), ({b}, 2, NULL)",
        f"UPDATE app.pairs SET v = {a}",
        f"UPDATE app.pairs SET id = {a} WHERE n = 2",
        "DELETE FROM app.pairs WHERE n = 1",
        "ALTER TABLE app.t ADD more int DEFAULT 7",
        "ALTER TABLE app.t ALTER n TYPE bigint USING n * 10",
        "UPDATE app.t SET more = 8",
    ):
        application.execute(statement)
    assert master.rows("SELECT * FROM app.seen") == []
    items = [item for item in master.items() if item.table in tables]
    texts = {item.guid for item in items if item.table.name == "t"} - {None}
    written = {master.value(f"SELECT format('%s', {value})") for value in (a, b)}
    assert texts == written
    rows = [row for item in items for row in (item.new, item.old)]
    seen = {row[name] for row in rows for name in ("id", "v", "w") if name in row}
    assert seen - {None} == written


def test_reading_keys_calls_no_cast_of_others(master: Master, application: psycopg.Connection[Any]) -> None:
    application.execute("CREATE TYPE app.own AS ENUM ('a', 'b')")
    for statement in evil_cast("app.own"):
        application.execute(statement)
    application.execute("CREATE TABLE app.t (id app.own PRIMARY KEY)")
    application.execute("INSERT INTO app.t VALUES ('a'), ('b')")
    shape = TableShape(TableName("app", "t"), (Column("id", "app.own", 1, False, 1),))
    order = key_order.key_order(master.connection, shape)
    assert order.next_bound(master.connection, None, None, 1) == ("b",)
    alterer = Alterer(master.connection, SlaveTables(master.connection))
    assert alterer.keys(CutItem(1, 1, Action.TRUNCATE, shape.table)) == [("a",), ("b",)]
    assert master.rows("SELECT * FROM app.seen") == []


def test_null_empty_and_composites_of_nulls_are_distinguished(master: Master) -> None:
    master.sql("CREATE TYPE pair AS (x int, y text)", "CREATE TABLE t (id int PRIMARY KEY, p pair)")
    master.register("t")
    master.sql(
        "INSERT INTO t VALUES (1, NULL), (2, ROW(NULL, NULL)), (3, ROW(NULL, ''))",
        "UPDATE t SET p = CASE id WHEN 1 THEN ROW(NULL, NULL)::pair WHEN 3 THEN ROW(NULL, NULL)::pair END",
    )
    assert [item.new["p"] for item in master.items()] == [None, "(,)", '(,"")', "(,)", None, "(,)"]
    assert [item.old["p"] for item in master.items()[3:]] == [None, "(,)", '(,"")']


@pytest.mark.parametrize("kind", ["bpchar", "blank", "character(6)"])
def test_one_row_has_one_key_text(master: Master, kind: str) -> None:
    master.sql(
        "CREATE DOMAIN blank AS bpchar",
        f"CREATE TABLE t (id {kind} PRIMARY KEY, v text)",
        f"CREATE TABLE two (id {kind}, n int, v text, PRIMARY KEY (id, n))",
    )
    master.register("t", "two")
    master.sql(
        "INSERT INTO t VALUES ('ab  ', 'x')",
        "UPDATE t SET v = 'y'",
        "UPDATE t SET id = 'ab'",
        "UPDATE t SET id = 'c '",
        "DELETE FROM t",
        "INSERT INTO two VALUES ('ab  ', 1, 'x')",
        "UPDATE two SET v = 'y'",
        "DELETE FROM two",
    )
    for item in master.items():
        if item.guid is None:
            assert item.old_row["id"] != item.new["id"]
            continue
        text = (item.new or item.old)["id"] or ""
        assert item.guid == (text if item.table.name == "t" else f"{len(text)}:{text}1:1")
        if item.action == "UPDATE":
            assert item.old["id"] == item.new["id"]
    assert Model().replay(i for i in master.items() if i.table.name == "t").contents("t") == master.contents("t")
