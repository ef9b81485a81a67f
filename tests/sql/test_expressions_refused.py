"""Expressions of the master's definitions never run code of the master's users with the rights of the slave's
account."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from test_alter import Item, Pair

from sluice import sql_files
from sluice.model.change import Action
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.shape import Column
from sluice.vendors.postgres import catalog, connection
from sluice.vendors.postgres.expressions import DEFAULTS_ONLY, Examiner, ExpressionRefused
from sluice.vendors.postgres.target.alter import Alterer
from sluice.vendors.postgres.target.slave_tables import SlaveTables

pytestmark = pytest.mark.releases

T = TableName("public", "t")
APPLICATION = """
CREATE SEQUENCE public.runs;
GRANT ALL ON SEQUENCE public.runs TO PUBLIC;
CREATE FUNCTION public.boom(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN PERFORM pg_catalog.nextval('public.runs'); RETURN $1; END $$;
CREATE FUNCTION public.boom(integer, integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN PERFORM pg_catalog.nextval('public.runs'); RETURN true; END $$;
CREATE OPERATOR public.=== (LEFTARG = integer, RIGHTARG = integer, FUNCTION = public.boom);
CREATE TYPE public.pair AS (x integer);
CREATE FUNCTION public.to_pair(text) RETURNS public.pair LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN PERFORM pg_catalog.nextval('public.runs'); RETURN ROW(1)::public.pair; END $$;
CREATE TYPE public.other AS (x integer);
CREATE FUNCTION public.of_other(public.other) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN PERFORM pg_catalog.nextval('public.runs'); RETURN 1; END $$;
CREATE CAST (text AS public.pair) WITH FUNCTION public.to_pair(text) AS ASSIGNMENT;
CREATE CAST (public.other AS integer) WITH FUNCTION public.of_other(public.other) AS ASSIGNMENT;
CREATE DOMAIN public.checked AS integer CHECK (public.boom(VALUE) > 0);
CREATE TYPE public.part AS (c public.checked);
CREATE DOMAIN public.email AS text CHECK (VALUE ~ '^[^@]+@[^@]+$');
CREATE TYPE public.mood AS ENUM ('sad', 'ok')
"""
"""The same on master and slave, as after a restored dump. RUNS counts what ran, also what was rolled back."""


@pytest.fixture
def pair(database: Callable[..., ConnectionInfo]) -> Iterator[Pair]:
    with (
        connection.connect(database(), application="master", autocommit=True) as master,
        connection.connect(database(), application="slave", autocommit=True) as slave,
    ):
        for name in (*(f"resources_v{step}" for step in (1, 2, 6, 7)), "cols_view", "values", "definition"):
            master.execute(sql_files.render("postgres", name, prefix="demo_", schema='"public"').encode())
        for link in (master, slave):
            link.execute(APPLICATION)
        yield Pair(master, slave)


def follow(pair: Pair, change: str, *, table: TableName = T, setup: str = "id integer PRIMARY KEY, n text") -> None:
    """The tables on both sides have a row; then the slave follows the statement, in its own transaction."""
    pair.create(f"CREATE TABLE public.{table.name} ({setup})", table)
    for link in (pair.master, pair.slave):
        link.execute(f"INSERT INTO public.{table.name} (id, n) VALUES (1, 'a')")
        link.execute("ALTER SEQUENCE public.runs RESTART")
    before = pair.described(table)
    pair.master.execute(f"ALTER TABLE public.{table.name} {change}")
    with pair.slave.transaction():
        pair.alterer.apply(Item(Action.ALTER, table, pair.described(table), before))


def runs(link: psycopg.Connection[Any]) -> bool:
    row = link.execute("SELECT is_called FROM public.runs").fetchone()
    assert row is not None
    return bool(row[0])


ATTACKS = [
    ("ADD COLUMN c integer GENERATED ALWAYS AS (public.boom(id)) STORED", "public.boom(integer)"),
    ("ADD COLUMN c boolean GENERATED ALWAYS AS (id OPERATOR(public.===) 1) STORED", "public.boom(integer,integer)"),
    (
        "ADD COLUMN c boolean GENERATED ALWAYS AS (id OPERATOR(public.===) ANY ('{1}'::int[])) STORED",
        "public.boom(",
    ),
    # An assignment to a column of another type calls a cast that the text of the expression does not show.
    ("ADD COLUMN c public.pair GENERATED ALWAYS AS (n || 'x') STORED", "public.to_pair(text)"),
    ("ADD COLUMN c integer GENERATED ALWAYS AS (ROW(id)::public.other) STORED", "public.of_other(public.other)"),
    ("ADD COLUMN c integer GENERATED ALWAYS AS (public.boom(1)) STORED", "public.boom(integer)"),
    # Each value would be written by the cast.
    ("ADD COLUMN c public.pair", "public.to_pair(text)"),
    ("ADD COLUMN c public.pair[]", "public.to_pair(text)"),
    ("ADD COLUMN c public.checked DEFAULT 1", "public.boom(integer)"),
    ("ADD COLUMN c public.checked[]", "public.boom(integer)"),
    ("ADD COLUMN c public.part", "public.boom(integer)"),
    ("ALTER n TYPE public.pair USING NULL", "public.to_pair(text)"),
    ("ALTER id TYPE public.checked", "public.boom(integer)"),
]
"""The change, and what it would call."""


def test_a_statement_that_runs_code_of_the_application_stops_and_nothing_ran(pair: Pair) -> None:
    for number, (change, called) in enumerate(ATTACKS):
        with pytest.raises(ExpressionRefused) as refused:
            follow(pair, change, table=TableName("public", f"t{number}"))
        assert called in refused.value.reason, change
        assert f'ALTER TABLE "public"."t{number}"' in refused.value.statement
        assert "trusted_ddl: true" in str(refused.value)
        assert not runs(pair.slave), change
    # Nothing is left of the look at them.
    assert pair.slave.execute("SELECT count(*) FROM pg_class WHERE relname = 'sluice_expression'").fetchone() == (0,)


@pytest.mark.since(17, "SET EXPRESSION")
def test_another_expression_of_a_generated_column_stops_until_a_person_made_it(pair: Pair) -> None:
    setup = "id integer PRIMARY KEY, n text, c integer GENERATED ALWAYS AS (id + 1) STORED"
    change = "ALTER c SET EXPRESSION AS (public.boom(id))"
    with pytest.raises(ExpressionRefused, match=r'ALTER COLUMN "c" SET EXPRESSION AS \(public\.boom\(id\)\)'):
        follow(pair, change, setup=setup)
    assert not runs(pair.slave)
    pair.slave.execute(f"ALTER TABLE public.t {change}")
    before = pair.described().replace("boom(id)", "id + 1")  # type: ignore[union-attr]
    pair.alterer.apply(Item(Action.ALTER, T, pair.described(), before))


DEFAULTS = [
    "public.boom(public.id_of_today())",
    # Harmless on the master, whoever runs it there.
    "CASE WHEN current_user = 'somebody' THEN public.boom((random() * 10)::int) ELSE public.boom(2) END",
    "length(query_to_xml('SELECT 1', true, false, '')::text)",
]


def test_a_default_of_a_new_column_is_not_evaluated_and_left_out(pair: Pair) -> None:
    for link in (pair.master, pair.slave):
        body = "'BEGIN RETURN 7; END'"
        link.execute(f"CREATE FUNCTION public.id_of_today() RETURNS integer LANGUAGE plpgsql VOLATILE AS {body}")
    for number, default in enumerate(DEFAULTS if has_xml(pair.master) else DEFAULTS[:-1]):
        for nullable in ("", " NOT NULL"):
            table = TableName("public", f"t{number}{len(nullable)}")
            follow(pair, f"ADD COLUMN c integer DEFAULT {default}{nullable}", table=table)
            assert not runs(pair.slave)
            shape = catalog.shape(pair.slave, table)
            assert shape is not None
            assert shape.column("c").default is None
            assert pair.slave.execute(f"SELECT c FROM {table}").fetchall() == [(None,)]


def has_xml(link: psycopg.Connection[Any]) -> bool:
    try:
        link.execute("SELECT xmlparse(content '<a/>')")
    except psycopg.errors.FeatureNotSupported:
        return False
    return True


def test_a_changed_default_that_calls_the_application_is_left_out(pair: Pair) -> None:
    follow(pair, "ALTER n SET DEFAULT public.boom(3)::text")
    shape = catalog.shape(pair.slave, T)
    assert shape is not None
    assert shape.column("n").default is None
    assert not runs(pair.slave)


def test_a_new_table_stops_for_its_generated_column_and_not_for_its_default(pair: Pair) -> None:
    with pytest.raises(ExpressionRefused, match=r"public\.boom\(integer\)"):
        pair.create("CREATE TABLE public.t (id integer, g integer GENERATED ALWAYS AS (public.boom(id)) STORED)")
    pair.create("CREATE TABLE public.u (id integer DEFAULT public.boom(2))", TableName("public", "u"))
    assert not runs(pair.slave)
    assert catalog.shape(pair.slave, T) is None
    made = catalog.shape(pair.slave, TableName("public", "u"))
    assert made is not None
    assert made.column("id").default is None


def test_rows_of_a_partition_are_not_deleted_by_a_condition_of_the_application(pair: Pair) -> None:
    pair.slave.execute("CREATE TABLE public.t (id integer); INSERT INTO public.t VALUES (1)")
    item = Item(Action.DELETE_WHERE, T, "<partition><rows>(public.boom(id) &gt;= 1)</rows></partition>")
    with pytest.raises(ExpressionRefused, match=r"public\.boom\(integer\)"):
        pair.alterer.delete_where(item)
    assert not runs(pair.slave)
    pair.alterer.delete_where(Item(Action.DELETE_WHERE, T, "<partition><rows>(id &gt;= 1)</rows></partition>"))
    assert pair.slave.execute("SELECT count(*) FROM public.t").fetchone() == (0,)


def test_a_slave_that_trusts_the_master_runs_what_it_brings(pair: Pair) -> None:
    pair.alterer = Alterer(pair.slave, SlaveTables(pair.slave), trusted=True)
    follow(pair, "ADD COLUMN c integer GENERATED ALWAYS AS (public.boom(id)) STORED")
    assert runs(pair.slave)
    pair.same()


@pytest.mark.parametrize("default", ["random()", "now()"])
def test_not_null_waits_for_the_values(pair: Pair, default: str) -> None:
    type_ = pair.master.execute(f"SELECT pg_typeof({default})::text").fetchone()[0]
    follow(pair, f"ADD COLUMN c {type_} NOT NULL DEFAULT {default}")
    pair.alterer.complete_columns([T])
    shape = catalog.shape(pair.slave, T)
    assert shape is not None
    constant = default == "now()"
    assert shape.column("c").nullable is not constant
    if not constant:
        # What is written from now on must have its value.
        with pytest.raises(psycopg.errors.CheckViolation):
            pair.slave.execute("INSERT INTO public.t (id, n, c) VALUES (9, 'b', NULL)")
    # The apply was started again in between.
    again = Alterer(pair.slave, SlaveTables(pair.slave))
    again.complete_columns([])
    value = pair.master.execute("SELECT c FROM public.t").fetchone()[0]
    pair.slave.execute("UPDATE public.t SET c = %s", [value])
    again.complete_columns([TableName("public", "other")])
    again.complete_columns([T])
    pair.same()
    assert pair.slave.execute("SELECT count(*) FROM pg_constraint WHERE conname ~ '^sluice'").fetchone() == (0,)


def test_a_column_that_may_be_null_again_before_its_values_came_stays_so(pair: Pair) -> None:
    follow(pair, "ADD COLUMN c float8 NOT NULL DEFAULT random()")
    before = pair.described()
    pair.master.execute("ALTER TABLE public.t ALTER c DROP NOT NULL")
    pair.alterer.apply(Item(Action.ALTER, T, pair.described(), before))
    pair.slave.execute("INSERT INTO public.t (id, n, c) VALUES (9, 'b', NULL)")
    pair.alterer.complete_columns([T])
    shape = catalog.shape(pair.slave, T)
    assert shape is not None
    assert shape.column("c").nullable


HARMLESS = [
    ("integer", "id + 1"),
    ("text", "upper(n) || '-' || id"),
    ("text", "COALESCE(NULLIF(n, ''), 'none')"),
    ("integer", "CASE WHEN id > 3 THEN 1 ELSE GREATEST(id, 2) END"),
    ("boolean", "id = ANY ('{1,2}'::integer[]) AND n IS NOT NULL AND NOT id IS DISTINCT FROM 2"),
    ("boolean", "ROW(id, 1) > ROW(2, 2) AND (n COLLATE \"C\") < 'b'"),
    ("integer", "(ARRAY[id, 2])[1]"),
    ("public.mood", "CASE n WHEN 'a' THEN 'sad'::public.mood ELSE 'ok'::public.mood END"),
    ("tsvector", "to_tsvector('simple'::regconfig, n)"),
    ("public.email", "(n || '@example.org')::public.email"),
]


REFUSED = [
    ("integer", "(SELECT 1)"),
    ("text", "current_user"),
    ("text", "current_setting('ssl_key_file')"),
    ("text", "pg_read_file('PG_VERSION')"),
    ("float8", "random()"),
    ("jsonb", "to_jsonb(n)"),
    ("integer", "1), n = ('x'"),
]
USUAL_DEFAULTS = [
    ("timestamptz", "now()"),
    ("date", "CURRENT_DATE"),
    ("text", "CURRENT_USER"),
    ("timestamp", "(now() AT TIME ZONE 'utc')"),
    ("uuid", "gen_random_uuid()"),
    ("bigint", "nextval('public.runs'::regclass)"),
    ("text", "'A' || to_char(now(), 'YYYY') || lpad(nextval('public.runs'::regclass)::text, 6, '0')"),
    ("double precision", "random()"),
    ("date", "(now() + '7 days'::interval)::date"),
    ("public.mood", "'sad'::public.mood"),
    ("jsonb", "'{}'::jsonb"),
    ("text[]", "'{}'::text[]"),
]


def test_expressions_are_judged_by_all_that_they_call(pair: Pair) -> None:
    examiner = Examiner(pair.slave)
    row = ["id integer", "n text", '":funcid 1" integer', '"{BOOM" integer']
    for type_, expression in HARMLESS:
        assert examiner.evaluated(expression, row, 'odd "name" {', type_=type_) == "", expression
        assert examiner.evaluated(expression, row, "t") == "", expression
    for type_, expression in REFUSED:
        assert examiner.evaluated(expression, row, "t", type_=type_), expression
    for type_, default in USUAL_DEFAULTS:
        assert examiner.default(default, Column("c", type_, 1)) == "", default
    assert not runs(pair.slave)


def test_only_functions_of_extensions_that_need_a_superuser_are_allowed(pair: Pair) -> None:
    pair.slave.execute(
        "CREATE EXTENSION citext SCHEMA public; ALTER EXTENSION citext ADD FUNCTION public.boom(integer);"
        "CREATE FUNCTION public.same(text, text) RETURNS boolean LANGUAGE internal IMMUTABLE AS 'texteq'"
    )
    examiner, row = Examiner(pair.slave), ["id integer", "n text", "c public.citext"]
    for allowed in ("c OPERATOR(public.~) '^a'::public.citext", "public.citext_larger(c, c) OPERATOR(public.=) c"):
        assert examiner.evaluated(allowed, row, "t") == "", allowed
    # In SQL, of the extension or taken into it, and in C without an extension.
    for refused in ("public.strpos(c, c) > 0", "public.boom(id) = 1", "public.same(n, n)"):
        assert "public." in examiner.evaluated(refused, row, "t"), refused
    pair.slave.execute("CREATE DOMAIN public.mail AS public.citext CHECK (VALUE OPERATOR(public.~) '@'::public.citext)")
    assert examiner.types(["public.mail"]) == ""
    assert not runs(pair.slave)


def test_no_function_that_is_allowed_reads_rows_files_or_settings(pair: Pair) -> None:
    refused = pair.slave.execute(
        sql_files.render("postgres", "expression_calls"),
        {
            "functions": [oid for (oid,) in pair.slave.execute("SELECT oid::text FROM pg_proc").fetchall()],
            "operators": [],
            "types": [],
            "harmless": list(DEFAULTS_ONLY),
        },
    ).fetchall()
    signatures = pair.slave.execute(
        "SELECT oid::regprocedure::text, provolatile, proname::text FROM pg_proc"
    ).fetchall()
    names = {text for _, text in refused}
    allowed = [(text, volatile, name) for text, volatile, name in signatures if text not in names]
    # What is not immutable is in the list, or a cast or operator for times, texts and names.
    others = {name for _, volatile, name in allowed if volatile != "i"} - set(DEFAULTS_ONLY)
    times = {name for name in others if any(word in name for word in ("time", "date", "interval"))}
    assert others - times <= {
        "regclass",
        "money",
        "numeric",
        "xml",
        "textanycat",
        "anytextcat",
        "ts_match_tt",
        "ts_match_tq",
    }
    reading = (
        "query_to_xml table_to_xml cursor_to_xml schema_to_xml database_to_xml pg_read_file pg_read_binary_file "
        "pg_ls_dir pg_stat_file lo_get lo_export lo_import loread current_setting set_config pg_sleep setval currval "
        "pg_terminate_backend pg_advisory_lock lastval inet_server_addr pg_get_viewdef has_table_privilege "
        "pg_logical_emit_message"
    )
    assert not {name for _, _, name in allowed} & set(reading.split())
